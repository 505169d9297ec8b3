package notebook

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

type object = map[string]any

func encoded(t *testing.T, cells ...object) []byte {
	t.Helper()
	if cells == nil {
		cells = []object{}
	}
	b, err := json.Marshal(object{"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": object{"kernelspec": object{"display_name": "Python 3"}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFormat(t *testing.T) {
	image := base64.StdEncoding.EncodeToString(make([]byte, 3000))
	shown, cells, complete, err := Format(encoded(t,
		object{"cell_type": "markdown", "id": "intro", "source": "# Title\ntext"},
		object{"cell_type": "code", "execution_count": 3, "source": []string{"a = 1\n", "a"}, "outputs": []object{
			{"output_type": "stream", "name": "stderr", "text": []string{"one\n", "two\n"}},
			{"output_type": "execute_result", "data": object{"text/plain": []string{"1"}, "text/html": "<b>1</b>"}},
			{"output_type": "display_data", "data": object{"image/png": image[:2000] + "\n" + image[2000:], "text/plain": "<Figure>"}},
			{"output_type": "error", "ename": "E", "evalue": "v", "traceback": []string{"\x1b[0;31mE\x1b[0m: v", "line 2"}},
			{"output_type": "error", "ename": "E", "evalue": "v", "traceback": []string{}},
		}},
		object{"cell_type": "raw", "source": ""},
	))
	const want = `Kernel: Python 3

=== cell 0: markdown, id "intro" ===
# Title
text

=== cell 1: code, run as [3] ===
a = 1
a
--- output: stderr ---
one
two
--- output: result ---
1
--- output: text/html, 8 bytes (not shown) ---
--- output: result ---
<Figure>
--- output: image/png, 2.9 KiB (not shown) ---
--- output: error ---
E: v
line 2
--- output: error ---
E: v

=== cell 2: raw ===
`
	if shown != want || cells != 3 || complete || err != nil {
		t.Errorf("%d %v %v\n%s", cells, complete, err, shown)
	}
	if _, cells, complete, err := Format(encoded(t)); cells != 0 || !complete || err != nil {
		t.Errorf("%d %v %v", cells, complete, err)
	}
}

// TestLongOutputs checks that long outputs are shortened and that long sources are not.
func TestLongOutputs(t *testing.T) {
	stream := func(s string) object {
		return object{"cell_type": "code", "source": "x", "outputs": []object{{"output_type": "stream", "name": "stdout", "text": s}}}
	}
	for name, c := range map[string]struct {
		text, end string
	}{
		"lines": {strings.Repeat("ab\n", maxOutputLines+2), "ab\n… [output cut here: 6 bytes more]\n"},
		"bytes": {strings.Repeat("ä", maxOutputBytes), "ä\n… [output cut here: 4 KiB more]\n"},
		"split": {"x" + strings.Repeat("ä", maxOutputBytes/2), "ä\n… [output cut here: 2 bytes more]\n"},
		"fits":  {strings.Repeat("ab\n", maxOutputLines), "ab\nab\n"},
	} {
		shown, _, complete, err := Format(encoded(t, stream(c.text)))
		if !strings.HasSuffix(shown, c.end) || complete != (name == "fits") || err != nil || len(shown) > maxOutputBytes+200 {
			t.Errorf("%s: %v %v %q", name, complete, err, shown[max(0, len(shown)-100):])
		}
	}
	long := strings.Repeat("line\n", 5000)
	if shown, _, complete, _ := Format(encoded(t, object{"cell_type": "code", "source": long})); !strings.Contains(shown, long) || !complete {
		t.Error("the source is cut")
	}
}

func TestNoNotebook(t *testing.T) {
	if _, _, _, err := Format([]byte(`{"worksheets":[],"nbformat":3}`)); !errors.Is(err, ErrFormat) {
		t.Errorf("%v", err)
	}
	for _, s := range []string{"", "text", `[]`, `{"cells":5}`, `{"cells":[5]}`, `{"cells":[{"source":5}]}`} {
		if _, _, _, err := Format([]byte(s)); err == nil {
			t.Errorf("%q: no error", s)
		}
	}
}
