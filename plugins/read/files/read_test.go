package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
	"toolhost.dev/sdk/workspace/text"
)

// newHost returns a session with the plugin. The session's working directory is new and contains the given files.
func newHost(t testing.TB, entries ...string) *tooltest.Host {
	t.Helper()
	h := tooltest.New(t, Plugin(), t.TempDir())
	h.Files(entries...)
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type args = map[string]any

func TestReadText(t *testing.T) {
	h := newHost(t, "ten.go="+numbered(10), "open.txt=a\nb", "empty.py=", "crlf.c=a\r\nb\r\n", "mixed.txt=a\r\nb\n", "mac.txt=a\rb\rc\r",
		"bom.json=\xef\xbb\xbf{}\n", "utf16.txt=\xff\xfea\x00\n\x00\xac\x20", "latin.h=caf\xe9\n", "bom=\xef\xbb\xbf", "nl=\n")
	for _, c := range []struct {
		args   args
		output string
		data   readData
	}{
		{args{"file_path": "ten.go"}, numbered(10), readData{TotalLines: 10, StartLine: 1, EndLine: 10, Language: "Go", Encoding: "utf8"}},
		{args{"file_path": "ten.go", "show_line_numbers": true, "offset": 9}, " 9| line 9\n10| line 10", readData{TotalLines: 10, StartLine: 9, EndLine: 10, Language: "Go", Encoding: "utf8"}},
		{args{"file_path": "ten.go", "offset": 2, "limit": 2}, "line 2\nline 3", readData{TotalLines: 10, StartLine: 2, EndLine: 3, Language: "Go", Encoding: "utf8"}},
		{args{"file_path": "ten.go", "offset": 8, "limit": 2, "show_line_numbers": true}, "8| line 8\n9| line 9", readData{TotalLines: 10, StartLine: 8, EndLine: 9, Language: "Go", Encoding: "utf8"}},
		{args{"file_path": "ten.go", "offset": 0, "limit": 1}, "line 1", readData{TotalLines: 10, StartLine: 1, EndLine: 1, Language: "Go", Encoding: "utf8"}},
		{args{"file_path": "ten.go", "offset": 10}, "line 10\n", readData{TotalLines: 10, StartLine: 10, EndLine: 10, Language: "Go", Encoding: "utf8"}},
		{args{"file_path": "open.txt"}, "a\nb", readData{TotalLines: 2, StartLine: 1, EndLine: 2, Language: "Text", Encoding: "utf8"}},
		{args{"file_path": "empty.py"}, "[note: the file is empty]", readData{Language: "Python", Encoding: "utf8"}},
		{args{"file_path": "nl"}, "\n", readData{TotalLines: 1, StartLine: 1, EndLine: 1, Encoding: "utf8"}},
		{args{"file_path": "crlf.c"}, "a\nb\n\n[note: the lines of the file end with CRLF]", readData{TotalLines: 2, StartLine: 1, EndLine: 2, Language: "C", Encoding: "utf8"}},
		{args{"file_path": "mixed.txt"}, "a\nb\n\n[note: some lines of the file end with LF, some with CRLF]", readData{TotalLines: 2, StartLine: 1, EndLine: 2, Language: "Text", Encoding: "utf8"}},
		{args{"file_path": "mac.txt", "show_line_numbers": true}, "1| a\n2| b\n3| c\n\n[note: the lines of the file end with CR]", readData{TotalLines: 3, StartLine: 1, EndLine: 3, Language: "Text", Encoding: "utf8"}},
		{args{"file_path": "bom.json"}, "{}\n", readData{TotalLines: 1, StartLine: 1, EndLine: 1, Language: "JSON", Encoding: "utf8-bom"}},
		{args{"file_path": "bom"}, "[note: the file has no text, only a byte order mark]", readData{Encoding: "utf8-bom"}},
		{args{"file_path": "utf16.txt"}, "a\n€", readData{TotalLines: 2, StartLine: 1, EndLine: 2, Language: "Text", Encoding: "utf16le"}},
		{args{"file_path": "latin.h"}, "café\n\n[note: the file is not UTF-8 and is shown as windows-1252, which is a guess; characters beyond ASCII may be wrong]", readData{TotalLines: 1, StartLine: 1, EndLine: 1, Language: "C", Encoding: "windows-1252"}},
		{args{"file_path": "latin.h", "encoding": "ascii"}, "caf\\xe9\n", readData{TotalLines: 1, StartLine: 1, EndLine: 1, Language: "C", Encoding: "ascii"}},
		{args{"file_path": "ten.go", "encoding": "utf8", "limit": 1}, "line 1", readData{TotalLines: 10, StartLine: 1, EndLine: 1, Language: "Go", Encoding: "utf8"}},
		{args{"file_path": "latin.h", "encoding": "base64"}, base64.StdEncoding.EncodeToString([]byte("caf\xe9\n")), readData{Encoding: "base64"}},
	} {
		output, data, res := tooltest.Do[readData](h, "read", c.args)
		c.data.Path = h.Path(c.args["file_path"].(string))
		if output != c.output || data != c.data {
			t.Errorf("%v:\ngot  %q %+v\nwant %q %+v", c.args, output, data, c.output, c.data)
		}
		if want := fmt.Sprint("Read ", c.args["file_path"]); res.Title != want {
			t.Errorf("the title is %q, want %q", res.Title, want)
		}
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

// TestReadDataFields checks that every field of the data is present, even if it is empty.
func TestReadDataFields(t *testing.T) {
	h := newHost(t, "f=")
	var fields map[string]any
	must(t, json.Unmarshal(h.Call("read", args{"file_path": "f"}).Data, &fields))
	for _, name := range []string{"path", "total_lines", "start_line", "end_line", "language", "encoding", "truncated", "recommend_range", "is_directory"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestReadCaps(t *testing.T) {
	h := newHost(t, "lines="+strings.Repeat("x\n", 2500), "bytes="+strings.Repeat(strings.Repeat("y", 99)+"\n", 1000), "long=a\n"+strings.Repeat("z", 5000)+"\nb\n")
	for _, c := range []struct {
		args       args
		start, end int
		truncated  bool
		big        bool
		words      string
	}{
		{args{"file_path": "lines"}, 1, 2000, true, true, "[note: lines 1-2000 of 2500; at most 2000 are shown at once. Go on with offset=2001]"},
		{args{"file_path": "lines", "offset": 2001}, 2001, 2500, false, true, ""},
		{args{"file_path": "lines", "limit": 2400}, 1, 2000, true, true, "Go on with offset=2001"},
		{args{"file_path": "lines", "limit": 30}, 1, 30, false, true, ""},
		{args{"file_path": "bytes"}, 1, 512, true, true, "[note: lines 1-512 of 1000; at most 50 KiB are shown at once. Go on with offset=513]"},
		{args{"file_path": "long"}, 1, 3, true, false, "[note: 1 line is longer than 2000 characters"},
	} {
		output, data, _ := tooltest.Do[readData](h, "read", c.args)
		if data.StartLine != c.start || data.EndLine != c.end || data.Truncated != c.truncated || data.RecommendRange != c.big {
			t.Errorf("%v: %+v", c.args, data)
		}
		if c.words != "" && !strings.Contains(output, "\n\n[note: ") || !strings.Contains(output, c.words) || c.words == "" && strings.Contains(output, "[note") {
			t.Errorf("%v: the output ends with %q", c.args, output[len(output)-200:])
		}
	}
	if output, _, _ := tooltest.Do[readData](h, "read", args{"file_path": "long"}); !strings.Contains(output, strings.Repeat("z", 2000)+"… [line cut here: 3000 more bytes]\nb\n") {
		t.Errorf("%q", output[2000:])
	}
	// Each note contains the offset of the next part. Read all parts. Together, they must contain the whole file.
	var got strings.Builder
	for offset := 1; offset != 0; {
		output, data, _ := tooltest.Do[readData](h, "read", args{"file_path": "bytes", "offset": offset})
		text, note, more := strings.Cut(output, "\n\n[note")
		got.WriteString(text)
		offset = 0
		if more {
			got.WriteString("\n")
			_, next, _ := strings.Cut(note, "offset=")
			_, _ = fmt.Sscan(strings.TrimSuffix(next, "]"), &offset)
			if offset != data.EndLine+1 {
				t.Fatalf("the note says %d", offset)
			}
		}
	}
	if want, _ := os.ReadFile(h.Path("bytes")); got.String() != string(want) {
		t.Errorf("%d bytes were read in pieces, the file has %d", got.Len(), len(want))
	}
}

func TestReadRefusals(t *testing.T) {
	h := newHost(t, "f=a\nb\n", "empty=", "bin=\x7fELF\x00\x01\x02", "latin=ok\ncaf\xe9\n", "odd=\xff\xfea", "d/", "out -> /etc/passwd", "loop -> loop", "utf16=\xff\xfea\x00")
	must(t, syscall.Mkfifo(h.Path("fifo"), 0o666))
	must(t, os.WriteFile(h.Path("big"), make([]byte, maxBase64+1), 0o666))
	must(t, os.Truncate(h.Path("big"), 2<<30))
	h.Refuses("read", args{"file_path": "f", "offset": 3}, tool.InvalidArguments, "offset 3 is past the end", "2 lines", "from 1 to 2")
	h.Refuses("read", args{"file_path": "empty", "offset": 2}, tool.InvalidArguments, "empty")
	h.Refuses("read", args{"file_path": "f", "limit": 0}, tool.InvalidArguments, "limit")
	h.Refuses("read", args{"file_path": "bin"}, tool.InvalidArguments, "binary", "base64", "shell")
	h.Refuses("read", args{"file_path": "bin", "encoding": "utf8"}, tool.InvalidArguments, "binary")
	h.Refuses("read", args{"file_path": "utf16", "encoding": "ascii"}, tool.InvalidArguments, "binary")
	h.Refuses("read", args{"file_path": "latin", "encoding": "utf8"}, tool.InvalidArguments, "0xe9", "line 2", "encoding=auto")
	h.Refuses("read", args{"file_path": "odd"}, tool.InvalidArguments, "UTF-16", "base64")
	h.Refuses("read", args{"file_path": "fifo"}, tool.InvalidArguments, "named pipe")
	h.Refuses("read", args{"file_path": "big"}, tool.InvalidArguments, "binary", "2 GiB")
	h.Refuses("read", args{"file_path": "big", "encoding": "base64"}, tool.InvalidArguments, "1 MiB", "head -c")
	h.Refuses("read", args{"file_path": "d", "encoding": "base64"}, tool.InvalidArguments, "directory")
	h.Refuses("read", args{"file_path": "f", "encoding": "latin1"}, tool.InvalidArguments, "encoding")
	h.Refuses("read", args{"file_path": "out"}, tool.Security, "/etc/passwd", h.Cwd)
	h.Refuses("read", args{"file_path": "../x"}, tool.Security, h.Cwd)
	h.Refuses("read", args{"file_path": "a\x00b"}, tool.Security, "NUL")
	h.Refuses("read", args{"file_path": "loop"}, tool.InvalidArguments, "loop")
	h.Refuses("read", args{"file_path": ""}, tool.InvalidArguments, "empty")
}

func TestReadMissing(t *testing.T) {
	h := newHost(t, "src/main.go=", "src/handler.go=", "deep/er/unique.txt=", ".hidden/unique.txt=", "Config.yaml=")
	for path, want := range map[string]string{
		"src/mian.go":                 "\nDid you mean src/main.go?",
		"handler.go":                  "\nDid you mean src/handler.go?",
		"src/unique.txt":              "\nDid you mean deep/er/unique.txt?",
		"config.yaml":                 "\nDid you mean Config.yaml?",
		"scr/other.go":                "\nDid you mean src?",
		"src/zzzzzz":                  "\nList src to see what is there.",
		"qqqqq/zzzzzz":                "\nThe directory qqqqq does not exist either. List . to see what is there.",
		h.Path("src/mian.go"):         "\nDid you mean src/main.go?",
		"src/main.go/below/unknown.x": "\nDid you mean src/main.go?",
	} {
		res := h.Call("read", args{"file_path": path})
		if res.Error == nil || res.Error.Kind != tool.NotFound || res.Error.Message != "File does not exist: "+path+want {
			t.Errorf("%s: %v", path, res.Error)
		}
	}
}

func TestReadEffects(t *testing.T) {
	h := newHost(t, "f=a\nb\nc\n", "long="+strings.Repeat("x", 2001), "link -> f", "d/")
	for _, c := range []struct {
		args    args
		partial bool
	}{
		{args{"file_path": "f"}, false},
		{args{"file_path": "link"}, false},
		{args{"file_path": "f", "limit": 3}, false},
		{args{"file_path": "f", "limit": 2}, true},
		{args{"file_path": "f", "offset": 2}, true},
		{args{"file_path": "long"}, true},
		{args{"file_path": "f", "encoding": "base64"}, false},
	} {
		_, _, res := tooltest.Do[readData](h, "read", c.args)
		name := strings.Replace(c.args["file_path"].(string), "link", "f", 1)
		content, _ := os.ReadFile(h.Path(name))
		info, _ := os.Stat(h.Path(name))
		want := tool.Effect{Operation: tool.OpRead, File: tool.FileState{Path: h.Path(name), Size: info.Size(), ModTime: info.ModTime(), Hash: sha256.Sum256(content), Partial: c.partial}}
		if len(res.Effects) != 1 || res.Effects[0].File != want.File || res.Effects[0].Operation != want.Operation {
			t.Errorf("%v: %+v", c.args, res.Effects)
		}
	}
	if _, _, res := tooltest.Do[readData](h, "read", args{"file_path": "d"}); len(res.Effects) != 0 {
		t.Errorf("a directory has effects: %+v", res.Effects)
	}
}

// TestReadIfChanged checks that a call with if_changed does not return the text if the session already knows the whole
// text.
func TestReadIfChanged(t *testing.T) {
	h := newHost(t, "f=a\nb\n")
	read := func(in args) (string, readData) {
		in["file_path"] = "f"
		output, data, _ := tooltest.Do[readData](h, "read", in)
		return output, data
	}
	for i, c := range []struct {
		args   args
		output string
	}{
		{args{"if_changed": true, "limit": 1}, "a"}, // the session does not yet know the text
		{args{"if_changed": true}, "a\nb\n"},        // the session knows only a part of the text
		{args{"if_changed": true}, "[note: f is unchanged since this session last read or wrote it (4 bytes)]"},
		{args{"if_changed": true, "offset": 2}, "[note: f is unchanged since this session last read or wrote it (4 bytes)]"},
		{args{}, "a\nb\n"},
	} {
		if output, data := read(c.args); output != c.output || data.Unchanged != strings.Contains(c.output, "note") {
			t.Errorf("%d: %q, %+v", i, output, data)
		}
	}
	h.Files("f=a\nc\n")
	if output, data := read(args{"if_changed": true}); output != "a\nc\n" || data.Unchanged {
		t.Errorf("after a change: %q, %+v", output, data)
	}
}

// TestReadLarge checks a file that is too large to be read into memory.
func TestReadLarge(t *testing.T) {
	h := newHost(t)
	line := strings.Repeat("0123456789", 10) + "\n"
	content := []byte(strings.Repeat(line, maxInMemory/len(line)+1000))
	total := bytes.Count(content, []byte("\n"))
	must(t, os.WriteFile(h.Path("big.log"), content, 0o666))
	output, data, res := tooltest.Do[readData](h, "read", args{"file_path": "big.log", "offset": total - 1, "show_line_numbers": true})
	if want := fmt.Sprintf("%d| %s%d| %s", total-1, line, total, strings.TrimSpace(line)); output != want {
		t.Errorf("got %q", output)
	}
	if data.TotalLines != total || data.StartLine != total-1 || data.EndLine != total || !data.RecommendRange || data.Truncated || data.Encoding != "utf8" {
		t.Errorf("%+v", data)
	}
	if len(res.Effects) != 1 || res.Effects[0].File.Hash != sha256.Sum256(content) || !res.Effects[0].File.Partial {
		t.Errorf("%+v", res.Effects)
	}
	h.Refuses("read", args{"file_path": "big.log", "offset": total + 1}, tool.InvalidArguments, "past the end", fmt.Sprint(total))

	content[len(content)-3] = 0xe9
	must(t, os.WriteFile(h.Path("latin.log"), append([]byte("\xef\xbb\xbf"), content...), 0o666))
	if output, data, _ = tooltest.Do[readData](h, "read", args{"file_path": "latin.log", "offset": total, "limit": 1}); !strings.Contains(output, "é") || data.Encoding != "windows-1252" || !strings.Contains(output, "guess") {
		t.Errorf("%q %+v", output, data)
	}
	if output, data, _ = tooltest.Do[readData](h, "read", args{"file_path": "latin.log", "limit": 1}); output != strings.TrimSpace(line) || data.Encoding != "utf8-bom" {
		t.Errorf("%q %+v", output, data)
	}
	h.Refuses("read", args{"file_path": "latin.log", "offset": total, "encoding": "utf8"}, tool.InvalidArguments, "0xe9")
}

// TestReadLargeUTF16 checks that a large text in UTF-16 is decoded as a whole up to a size limit.
func TestReadLargeUTF16(t *testing.T) {
	h := newHost(t)
	must(t, os.WriteFile(h.Path("wide.txt"), append([]byte("\xff\xfe"), bytes.Repeat([]byte("a\x00\n\x00"), maxInMemory/4)...), 0o666))
	if output, data, _ := tooltest.Do[readData](h, "read", args{"file_path": "wide.txt", "limit": 1}); output != "a" || data.TotalLines != maxInMemory/4 || data.Encoding != "utf16le" {
		t.Errorf("%q %+v", output, data)
	}
	must(t, os.Truncate(h.Path("wide.txt"), text.MaxDecoded+2))
	h.Refuses("read", args{"file_path": "wide.txt"}, tool.InvalidArguments, "UTF-16", "32 MiB", "iconv")
}

// TestReadHuge reads the first lines of a sparse file of 2 GB. The tool must not read the whole file.
func TestReadHuge(t *testing.T) {
	h := newHost(t, "huge.txt="+strings.Repeat("some text\n", 1000))
	must(t, os.Truncate(h.Path("huge.txt"), 2<<30))
	output, data, res := tooltest.Do[readData](h, "read", args{"file_path": "huge.txt", "offset": 5, "limit": 2})
	if !strings.HasPrefix(output, "some text\nsome text\n\n[note: lines 5-6 of more than ") || !strings.Contains(output, "2 GiB") || !strings.Contains(output, "edit will refuse it") {
		t.Errorf("got %q", output)
	}
	if data.StartLine != 5 || data.EndLine != 6 || data.TotalLines < 1000 || !data.RecommendRange || len(res.Effects) != 0 {
		t.Errorf("%+v, effects %+v", data, res.Effects)
	}
}

func TestReadMedia(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x02\x00\x00\x00\x03\x08\x06\x00\x00\x00\xb9\xea\xde\x81"
	h := newHost(t, "picture="+png, "doc.txt=%PDF-1.4\n\x00", "fake.png=no picture\n")
	for name, c := range map[string]struct{ typ, media, words string }{
		"picture": {"image", "image/png", "PNG image, 2 × 3 pixels"},
		"doc.txt": {"file", "application/pdf", "PDF document"},
	} {
		output, data, res := tooltest.Do[readData](h, "read", args{"file_path": name})
		content, _ := os.ReadFile(h.Path(name))
		if len(res.Attachments) != 1 || !strings.Contains(output, c.words) || data.Encoding != "binary" || len(res.Effects) != 1 {
			t.Fatalf("%s: %q %+v", name, output, res)
		}
		if a := res.Attachments[0]; a.Type != c.typ || a.MediaType != c.media || a.Path != h.Path(name) || !bytes.Equal(a.Content, content) {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for name, head := range map[string]string{"PNG": "\x89PNG\r\n\x1a\n", "JPEG": "\xff\xd8\xff\xe0", "GIF": "GIF89a\x01"} {
		write(t, h, name, head)
		h.Refuses("read", args{"file_path": name}, tool.InvalidArguments, name+" image", "ends after", "base64")
	}
	if output, _, res := tooltest.Do[readData](h, "read", args{"file_path": "fake.png"}); output != "no picture\n" || len(res.Attachments) != 0 {
		t.Errorf("a text with a picture's name: %q", output)
	}
	if output, _, res := tooltest.Do[readData](h, "read", args{"file_path": "picture", "encoding": "base64"}); output != base64.StdEncoding.EncodeToString([]byte(png)) || len(res.Attachments) != 0 {
		t.Errorf("a picture as base64: %q", output)
	}
	must(t, os.Truncate(h.Path("picture"), maxImage+1))
	h.Refuses("read", args{"file_path": "picture"}, tool.InvalidArguments, "PNG", "10 MiB", "smaller")
	must(t, os.Truncate(h.Path("picture"), maxImage))
	if _, _, res := tooltest.Do[readData](h, "read", args{"file_path": "picture"}); len(res.Attachments) != 1 {
		t.Error("a picture of the largest size is not attached")
	}
}

func TestReadDirectory(t *testing.T) {
	h := newHost(t, "d/b.txt=hello", "d/a/", "d/.x=", "d/l -> b.txt", "e/")
	output, data, _ := tooltest.Do[readData](h, "read", args{"file_path": "d"})
	lines := strings.Split(output, "\n")
	if lines[0] != "a/" || !strings.HasPrefix(lines[1], ".x  0 bytes  ") || !strings.HasPrefix(lines[2], "b.txt  5 bytes  ") || lines[3] != "l -> b.txt" || lines[5] != "[note: d is a directory with 4 entries]" {
		t.Errorf("got %q", lines)
	}
	if !data.IsDirectory || data.TotalLines != 4 || data.StartLine != 1 || data.EndLine != 4 || data.Truncated || data.Path != h.Path("d") {
		t.Errorf("%+v", data)
	}
	if output, data, _ = tooltest.Do[readData](h, "read", args{"file_path": "d", "offset": 4, "limit": 1}); !strings.HasPrefix(output, "l -> b.txt\n") || data.StartLine != 4 {
		t.Errorf("%q %+v", output, data)
	}
	if output, data, _ = tooltest.Do[readData](h, "read", args{"file_path": "e"}); output != "[note: e is a directory with 0 entries]" || !data.IsDirectory {
		t.Errorf("%q %+v", output, data)
	}
	h.Refuses("read", args{"file_path": "d", "offset": 5}, tool.InvalidArguments, "4 entries")
	if output, _, _ = tooltest.Do[readData](h, "read", args{"file_path": "."}); !strings.Contains(output, ". is a directory with 2 entries") {
		t.Errorf("%q", output)
	}
}

func TestTraits(t *testing.T) {
	for _, def := range describe(t).Tools {
		if def.Traits != (tool.Traits{ReadOnly: true, ConcurrencySafe: true, AutoExecute: true, Idempotent: true}) || def.Category != tool.CategoryBuiltin || len(def.Examples) == 0 {
			t.Errorf("%s: %+v", def.Name, def)
		}
		schema, err := tool.ParseSchema(def.Input)
		must(t, err)
		if !slices.ContainsFunc(schema.Params(), func(p *tool.Param) bool { return p.Path == "read" }) {
			t.Errorf("%s has no path parameter", def.Name)
		}
		for _, p := range schema.Params() {
			if p.Description == "" {
				t.Errorf("%s: %s has no description", def.Name, p.Name)
			}
		}
	}
}

func describe(t *testing.T) *tool.Description {
	p, err := sdk.New(Plugin())
	must(t, err)
	d, err := p.Describe(t.Context())
	must(t, err)
	return d
}

func BenchmarkRead10KB(b *testing.B) {
	plugin, err := sdk.New(Plugin())
	must(b, err)
	h := newHost(b, "f.go="+strings.Repeat("\tx := compute(a, b) // thirty\n", 350))
	call := &tool.Call{ID: "1", Tool: "read", Arguments: json.RawMessage(`{"file_path":"f.go","offset":1,"show_line_numbers":false,"encoding":"auto"}`), Cwd: h.Cwd, Roots: h.Roots}
	b.ReportAllocs()
	for b.Loop() {
		if res := plugin.Call(b.Context(), call, nil); res.Error != nil {
			b.Fatal(res.Error)
		}
	}
}
