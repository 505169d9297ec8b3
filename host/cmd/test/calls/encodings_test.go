package calls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"

	"toolhost.dev/host/cmd/test/hosttest"
)

// worldText is a natural-language text in an encoding. The value of the field "word" occurs once in the text, and the
// test replaces it by the value of the field "new". The field "foreign" is a character that the encoding cannot
// represent.
type worldText struct {
	encoding           string
	codec              encoding.Encoding
	prose              string
	word, new, foreign string
}

var worldTexts = []worldText{
	{"gbk", simplifiedchinese.GBK, "人人生而自由,在尊严和权利上一律平等。\n他们赋有理性和良心,并应以兄弟关系的精神相对待。\n", "兄弟关系", "姐妹关系", "🙂"},
	{"gb18030", simplifiedchinese.GB18030, "人人生而自由,在尊严和权利上一律平等。㐀\n他们赋有理性和良心,并应以兄弟关系的精神相对待。\n", "兄弟关系", "🙂", ""},
	{"big5", traditionalchinese.Big5, "人人生而自由,在尊嚴和權利上一律平等。\n他們賦有理性和良心,並應以兄弟關係的精神相對待。\n", "兄弟關係", "姐妹關係", "🙂"},
	{"shift_jis", japanese.ShiftJIS, "すべての人間は、生まれながらにして自由であり、\nかつ、尊厳と権利とについて平等である。表示ソース\n", "平等", "自由", "é"},
	{"euc-jp", japanese.EUCJP, "すべての人間は、生まれながらにして自由であり、\nかつ、尊厳と権利とについて平等である。\n", "平等", "自由", "🙂"},
	{"euc-kr", korean.EUCKR, "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.\n인간은 천부적으로 이성과 양심을 부여받았다.\n", "천부적으로", "동등하다", "é"},
	{"koi8-r", charmap.KOI8R, "Все люди рождаются свободными и равными\nв своем достоинстве и правах.\n", "достоинстве", "разуме", "ї"},
	{"windows-1251", charmap.Windows1251, "Все люди рождаются свободными и равными\nв своем достоинстве и правах.\n", "достоинстве", "разуме", "é"},
	{"windows-1250", charmap.Windows1250, "Všichni lidé se rodí svobodní a sobě rovní\nco do důstojnosti a práv. Žluťoučký kůň.\n", "důstojnosti", "řádu", "я"},
	{"windows-1252", charmap.Windows1252, "Tous les êtres humains naissent libres et égaux\nen dignité et en droits. Ils sont doués de raison à jamais.\n", "dignité", "égalité", "ő"},
	{"windows-1253", charmap.Windows1253, "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι\nστην αξιοπρέπεια και τα δικαιώματα.\n", "αξιοπρέπεια", "λογική", "я"},
	{"windows-1254", charmap.Windows1254, "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.\nAkıl ve vicdana sahiptirler, kardeşlik.\n", "kardeşlik", "İnsanlık", "я"},
	{"windows-1255", charmap.Windows1255, "כל בני האדם נולדו בני חורין ושווים בערכם\nובזכויותיהם. כולם חוננו בתבונה ובמצפון.\n", "בתבונה", "בערכם", "я"},
	{"windows-1256", charmap.Windows1256, "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق.\nوقد وهبوا عقلاً وضميراً وعليهم.\n", "وضميراً", "والحقوق", "я"},
	{"windows-1257", charmap.Windows1257, "Visi žmonės gimsta laisvi ir lygūs savo orumu ir teisėmis.\nJiems suteiktas protas ir sąžinė.\n", "sąžinė", "teisė", "я"},
}

// batchCall is a call in the input of "toolhost batch". batchResult is the result of a call.
type (
	batchCall struct {
		ID        int            `json:"id"`
		Session   string         `json:"session,omitempty"`
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	}
	batchResult struct {
		ID      int             `json:"id"`
		Success bool            `json:"success"`
		Output  *string         `json:"output"`
		Error   json.RawMessage `json:"error"`
		Data    json.RawMessage `json:"data"`
	}
)

// runBatch runs calls with the real program. The results have the order of the calls.
func runBatch(t *testing.T, dir string, calls ...batchCall) []batchResult {
	t.Helper()
	var in bytes.Buffer
	for i := range calls {
		calls[i].ID = i
		line, err := json.Marshal(calls[i])
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(line, '\n'))
	}
	c := hosttest.Command("--workspace", dir, "--state", hosttest.KeptState(t, filepath.Join(t.TempDir(), "state")), "batch", "--ordered")
	c.Dir, c.Stdin, c.Stderr = dir, &in, os.Stderr
	c.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var results []batchResult
	for line := range bytes.Lines(out) {
		var r batchResult
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		results = append(results, r)
	}
	if len(results) != len(calls) {
		t.Fatalf("%d results of %d calls", len(results), len(calls))
	}
	return results
}

func (r *batchResult) text() string {
	if r.Output == nil {
		return string(r.Error)
	}
	return *r.Output
}

func encodeText(t *testing.T, codec encoding.Encoding, s string) []byte {
	t.Helper()
	b, err := codec.NewEncoder().Bytes([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTextOfTheWorld reads, searches, edits, writes and restores files in each encoding (requirements U9, F1, F2, F3,
// F4, F5). One host runs the calls for all files. Each file has its own session.
func TestTextOfTheWorld(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	var files []*worldFile
	var calls []batchCall
	for _, w := range worldTexts {
		proses := []string{w.prose}
		if slices.Contains([]string{"gbk", "shift_jis", "koi8-r", "windows-1250"}, w.encoding) { // tests of the detection package cover all encodings
			proses = append(proses, strings.Repeat("plain ASCII text\n", 10_000)+w.prose+strings.Repeat(strings.ReplaceAll(w.prose, w.word, "-"), 400))
		}
		for i, prose := range proses {
			f := &worldFile{worldText: w, name: fmt.Sprint(w.encoding, i), long: i > 0, data: encodeText(t, w.codec, prose)}
			f.dir = filepath.Join(dir, f.name)
			hosttest.Must(t, os.Mkdir(f.dir, 0o700))
			hosttest.Must(t, os.WriteFile(filepath.Join(f.dir, "text.txt"), f.data, 0o600))
			files = append(files, f)
			calls = append(calls, f.calls()...)
		}
	}
	results := runBatch(t, dir, calls...)
	for _, f := range files {
		n := len(f.calls())
		t.Run(f.name, func(t *testing.T) { f.check(t, results[:n]) })
		results = results[n:]
	}
}

// worldFile is a file text.txt in its own directory. It contains the text prose, or a longer text that includes prose.
type worldFile struct {
	worldText
	name, dir string
	data      []byte
	long      bool
}

func (f *worldFile) calls() []batchCall {
	path := f.name + "/text.txt"
	foreign := f.foreign
	if foreign == "" {
		foreign = "\ufffd" // GB18030 has all characters, so use the replacement character
	}
	call := func(name string, arguments map[string]any) batchCall {
		return batchCall{Session: f.name, Name: name, Arguments: arguments}
	}
	edit := func(text string) batchCall {
		return call("edit", map[string]any{"file_path": path, "old_string": f.word, "new_string": text})
	}
	grep := call("grep", map[string]any{"pattern": f.word, "path": f.name})
	return []batchCall{
		call("read", map[string]any{"file_path": path}), grep,
		call("grep", map[string]any{"pattern": f.word, "path": path, "output_mode": "count"}),
		edit(f.word + foreign), edit(f.new), grep,
		call("bash", map[string]any{"command": "cp " + path + " " + f.name + "/edited.txt"}),
		call("write", map[string]any{"file_path": path, "content": f.prose + f.new + "\n"}),
		call("bash", map[string]any{"command": "cp " + path + " " + f.name + "/written.txt"}),
		call("undo", map[string]any{"steps": 2}),
	}
}

func (f *worldFile) check(t *testing.T, r []batchResult) {
	var read struct{ Encoding string }
	if err := json.Unmarshal(r[0].Data, &read); err != nil || read.Encoding != f.encoding || !f.long && !strings.Contains(r[0].text(), f.word) {
		t.Errorf("read as %q: %.300s", read.Encoding, r[0].text())
	}
	for _, i := range []int{1, 2} {
		if !strings.Contains(r[i].text(), "text.txt:") {
			t.Errorf("grep %d: %s", i, r[i].text())
		}
	}
	if r[3].Success || !strings.Contains(r[3].text(), f.encoding) {
		t.Errorf("a foreign character: %s", r[3].text())
	}
	if !r[4].Success || strings.Contains(r[5].text(), "text.txt:") {
		t.Errorf("edit: %s\nthen grep: %s", r[4].text(), r[5].text())
	}
	equalFile(t, filepath.Join(f.dir, "edited.txt"), bytes.Replace(f.data, encodeText(t, f.codec, f.word), encodeText(t, f.codec, f.new), 1))
	if !r[7].Success {
		t.Errorf("write: %s", r[7].text())
	}
	equalFile(t, filepath.Join(f.dir, "written.txt"), encodeText(t, f.codec, f.prose+f.new+"\n"))
	if !r[9].Success || !f.long && !strings.Contains(r[9].text(), f.word) {
		t.Errorf("undo: %s", r[9].text())
	}
	equalFile(t, filepath.Join(f.dir, "text.txt"), f.data)
}

func equalFile(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs: %v, %d bytes, want %d bytes", filepath.Base(path), err, len(got), len(want))
	}
}

// TestMixedEncodings checks files with several encodings and files with an uncertain encoding (requirement U9). The
// tools must show such files but must not change them.
func TestMixedEncodings(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	gbk, utf8 := encodeText(t, simplifiedchinese.GBK, worldTexts[0].prose), []byte(worldTexts[6].prose)
	files := map[string][]byte{"mixed.txt": append(bytes.Clone(utf8), gbk...), "damaged.txt": append(bytes.Repeat(gbk, 10), 0x80, 0xff, '\n'), "short.txt": []byte("caf\xe9\n")}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var calls []batchCall
	names := []string{"mixed.txt", "damaged.txt", "short.txt"}
	for _, name := range names {
		calls = append(calls, batchCall{Name: "read", Arguments: map[string]any{"file_path": name}},
			batchCall{Name: "edit", Arguments: map[string]any{"file_path": name, "old_string": map[string]string{"short.txt": "caf"}[name] + map[bool]string{true: "", false: "人人"}[name == "short.txt"], "new_string": "ñ"}},
			batchCall{Name: "write", Arguments: map[string]any{"file_path": name, "content": "ñ"}})
	}
	calls = append(calls, batchCall{Name: "grep", Arguments: map[string]any{"pattern": "兄弟关系", "path": "mixed.txt"}}, batchCall{Name: "grep", Arguments: map[string]any{"pattern": "достоинстве", "path": "mixed.txt"}})
	r := runBatch(t, dir, calls...)
	for i, want := range map[int]string{
		0: "its encoding is not uniform: 2 lines are gbk, the first is line 3", 1: "mixed.txt: The file cannot be changed as text", 2: "The file cannot be changed as text",
		3: "most of it is gbk, but line 21", 4: "not uniform", 5: "not uniform", 6: "which is a guess", 7: "only guessed", 8: "only guessed", 9: "mixed.txt:4:", 10: "mixed.txt:2:",
	} {
		if !strings.Contains(r[i].text(), want) {
			t.Errorf("%d: %s, want %q", i, r[i].text(), want)
		}
	}
	for name, data := range files {
		equalFile(t, filepath.Join(dir, name), data)
	}
}
