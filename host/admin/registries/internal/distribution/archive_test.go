package distribution

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"toolhost.dev/host/internal/artifact"
)

// rawTar returns a tar header of 512 bytes and the content of the entry. archive/tar would refuse to write some of
// these headers.
func rawTar(name string, kind byte, size int64, content string) []byte {
	h := make([]byte, 512)
	copy(h, name)
	copy(h[100:], "0000755\x00")
	copy(h[108:], "0000000\x000000000\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00", size))
	copy(h[136:], "00000000000\x00        ")
	h[156] = kind
	copy(h[257:], "ustar\x0000")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	h = append(h, content...)
	return append(h, make([]byte, (512-len(content)%512)%512)...)
}

// pax returns a PAX header with the given records.
func pax(records ...string) []byte {
	text := ""
	for _, r := range records {
		n := len(r) + 3 // the blank, the newline, and at least one digit
		for len(strconv.Itoa(n))+len(r)+2 != n {
			n++
		}
		text += fmt.Sprintf("%d %s\n", n, r)
	}
	return rawTar("x", tar.TypeXHeader, int64(len(text)), text)
}

func compressed(t *testing.T, parts ...[]byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(append(bytes.Join(parts, nil), make([]byte, 1024)...), nil)
}

// TestHostileArchives unpacks archives that archive/tar would not write. Each of them must be refused, and nothing may
// be written outside of the directory.
func TestHostileArchives(t *testing.T) {
	const program = "text"
	file := rawTar("weather", tar.TypeReg, int64(len(program)), program)
	for name, c := range map[string]struct {
		layer []byte
		want  string
	}{
		"good":                 {compressed(t, file), ""},
		"good, long form":      {compressed(t, pax("path=weather"), rawTar("x", tar.TypeReg, int64(len(program)), program)), ""},
		"path in PAX":          {compressed(t, pax("path=../weather"), file), `"../weather" is refused`},
		"absolute path in PAX": {compressed(t, pax("path=/etc/x"), file), `"/etc/x" is refused`},
		"NUL in PAX":           {compressed(t, pax("path=a\x00b"), file), "cannot be unpacked"},
		"link in PAX":          {compressed(t, pax("linkpath=/etc/passwd"), rawTar("weather", tar.TypeSymlink, 0, "")), "only regular files"},
		"size in PAX":          {compressed(t, pax("size=629145600"), file), "more than 512 MiB"},
		"negative size":        {compressed(t, pax("size=-1"), file), "cannot be unpacked"},
		"global PAX":           {compressed(t, rawTar("g", tar.TypeXGlobalHeader, 0, ""), file), "only regular files"},
		"sparse in PAX":        {compressed(t, pax("GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=weather", "GNU.sparse.realsize=644245094400"), rawTar("x", tar.TypeReg, 512, "0\n"+strings.Repeat("\x00", 510))), "more than 512 MiB"},
		"old sparse":           {compressed(t, rawTar("weather", tar.TypeGNUSparse, 0, "")), ""},
		"long PAX":             {compressed(t, pax("comment="+strings.Repeat("x", 2<<20)), file), "cannot be unpacked"},
		"directory":            {compressed(t, rawTar("lib/", tar.TypeDir, 0, ""), file), "only regular files"},
		"control character":    {layerOf(t, named("weather", program), named("a\x1b[2J", "")), "is refused"},
		"folded case":          {layerOf(t, named("weather", program), named("class", ""), named("claſs", "")), "are alike"},
		"kelvin":               {layerOf(t, named("weather", program), named("k", ""), named("\u212a", "")), "are alike"},
		"large window":         {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 0x09, 0x00, 0x00, 'x'}, "window"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := artifact.Unpack(bytes.NewReader(c.layer), t.TempDir(), "weather")
			if strings.HasPrefix(name, "good") {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, wanted %q", err, c.want)
			}
		})
	}
}
