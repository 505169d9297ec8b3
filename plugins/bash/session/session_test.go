package session

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func sample() State {
	return State{Base: []string{"A=1", "B=two\nlines"}, Login: &[]string{"C=3"}, Last: 130, Snapshot: &Snapshot{
		Options: "braceexpand:noglob", Dirs: []string{"/a", "/new\nline"}, Umask: "0022",
		Shopts: "extglob", Variables: "declare -- x=\"1\"\n", Functions: "f () \n{ \n    :\n}\n", FunctionFlags: "declare -fx f\n",
	}}
}

func TestStateThereAndBack(t *testing.T) {
	for _, s := range []State{{}, {Last: 3}, {Base: []string{""}, Snapshot: &Snapshot{}}, {Login: new([]string)}, {Login: &[]string{"A=b\nc", ""}}, sample()} {
		got, err := Decode(s.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Encode(), s.Encode()) || got.Last != s.Last || len(got.Base) != len(s.Base) || (got.Snapshot == nil) != (s.Snapshot == nil) || (got.Login == nil) != (s.Login == nil) {
			t.Errorf("%+v became %+v", s, got)
		}
	}
	s := sample()
	if got, _ := Decode(s.Encode()); !reflect.DeepEqual(got, s) {
		t.Errorf("%+v became %+v", s, got)
	}
	if got, err := Decode(nil); err != nil || got.Snapshot != nil || got.Last != 0 {
		t.Error(got, err)
	}
}

func TestSameButLast(t *testing.T) {
	a, b, c := sample(), sample(), sample()
	b.Last = 7
	c.Snapshot.Variables += "declare -- y=\"1\"\n"
	failed := State{Last: 1}
	for _, x := range []struct {
		a, b []byte
		same bool
	}{
		{nil, nil, true}, {a.Encode(), a.Encode(), true}, {a.Encode(), b.Encode(), true}, {b.Encode(), a.Encode(), true},
		{a.Encode(), c.Encode(), false}, {b.Encode(), c.Encode(), false}, {a.Encode(), nil, false}, {nil, failed.Encode(), false},
	} {
		if got := SameButLast(x.a, x.b); got != x.same {
			t.Errorf("%q and %q: %v", x.a, x.b, got)
		}
	}
}

// TestEveryChangeIsNoticed changes each byte of a state, and truncates the state after each byte. Decode must detect
// every change.
func TestEveryChangeIsNoticed(t *testing.T) {
	s := sample()
	good := s.Encode()
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, err := Decode(bad); !errors.Is(err, ErrState) {
			t.Fatalf("byte %d (%q) changed: %v", i, good[i], err)
		}
		if _, err := Decode(good[:i]); i > 0 && !errors.Is(err, ErrState) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	s := sample()
	f.Add(s.Encode())
	f.Add([]byte("toolhost-bash-session-2\x00-1\x0099999999999999999999\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := Decode(b); err == nil && len(b) > 0 && !bytes.Equal(s.Encode(), b) {
			t.Errorf("%q is taken for %+v", b, s)
		}
		// Correct the checksum. Otherwise the code after the check of the checksum would not run.
		if i := bytes.LastIndexByte(b, 0); i >= 0 {
			_, _ = Decode([]byte(string(b[:i+1]) + checksum(string(b[:i]))))
		}
	})
}

func told(fields ...string) []byte { return []byte(strings.Join(fields, "\x00") + "\x00") }

func TestParse(t *testing.T) {
	whole := []string{"R", "D", "braceexpand", "x:y", "/dir\n", "2", "/dir", "/other", "0022\n", "", "declare -- x=\"1\"\n", "f () \n", "declare -f f\n", "E"}
	s, err := Parse(told(whole...))
	want := &Snapshot{Options: "braceexpand", Cwd: "/dir", Dirs: []string{"/other"}, Umask: "0022", Shopts: "x:y", Variables: "declare -- x=\"1\"\n", Functions: "f () \n", FunctionFlags: "declare -f f\n"}
	if err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, %v", s, err)
	}
	set := func(i int, v string) []byte {
		f := append([]string(nil), whole...)
		f[i] = v
		return told(f...)
	}
	for name, c := range map[string]struct {
		dump []byte
		err  error
		cwd  string
	}{
		"nothing":       {nil, ErrNotRestored, ""},
		"garbage":       {[]byte("garbage"), ErrNotRestored, ""},
		"restored":      {told("R"), ErrNoDump, ""},
		"written to":    {told("R", "mine"), ErrNoDump, ""},
		"cut":           {told(whole[:10]...), ErrDump, "/dir"},
		"no cwd":        {set(4, "\n"), ErrDump, ""},
		"relative cwd":  {set(4, "dir\n"), ErrDump, ""},
		"bad count":     {set(5, "x"), ErrDump, "/dir"},
		"large count":   {set(5, "1000000000"), ErrDump, "/dir"},
		"umask is code": {set(8, "0022; evil"), ErrDump, "/dir"},
		"no end":        {set(13, "e"), ErrDump, "/dir"},
	} {
		s, err := Parse(c.dump)
		if !errors.Is(err, c.err) || s != nil && s.Cwd != c.cwd || s == nil && c.cwd != "" {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

func TestPrivateVariablesAreDropped(t *testing.T) {
	for text, want := range map[string]string{
		"declare -- x=\"1\"\n":                                                                                        "declare -- x=\"1\"\n",
		"declare -rx TOOLHOST_CALL=\"1\"\ndeclare -- x=\"1\"\n":                                                       "declare -- x=\"1\"\n",
		"declare -r __toolhost_script\ndeclare -- x=\"1\"\n":                                                          "declare -- x=\"1\"\n",
		"declare -ar __toolhost_script=([0]=\"a\nb\\\"\n\" [1]=$'c\\'\n')\ndeclare -- x=\"1\"\n":                      "declare -- x=\"1\"\n",
		"declare -- x=\"1\ndeclare -r TOOLHOST_CALL\n\"\ndeclare -r BASH_EXECUTION_STRING=\"a\nb\"\n":                 "declare -- x=\"1\ndeclare -r TOOLHOST_CALL\n\"\n",
		"declare -A x=([a]=\"'\" )\ndeclare -- y=$'\\'\ndeclare -- TOOLHOST_CALL'\ndeclare -x TOOLHOST_CALL=\"'\"\n":  "declare -A x=([a]=\"'\" )\ndeclare -- y=$'\\'\ndeclare -- TOOLHOST_CALL'\n",
		"declare -- x=\"TOOLHOST_CALL\"\ndeclare -- TOOLHOST_CALL=\"not closed\n":                                     "declare -- x=\"TOOLHOST_CALL\"\n",
		"declare -x TOOLHOST_VAR_x=\"1\"\ndeclare -x TOOLHOST_CALLS=\"1\"\ndeclare -- BASH_EXECUTION_STRINGS=\"7\"\n": "declare -x TOOLHOST_VAR_x=\"1\"\ndeclare -x TOOLHOST_CALLS=\"1\"\ndeclare -- BASH_EXECUTION_STRINGS=\"7\"\n",
	} {
		if got := dropPrivate(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestParseStatus(t *testing.T) {
	for text, want := range map[string]int{"0\x00": 0, "7\x00": 7, "255\x00": 255, "": -1, "7": -1, "\x00": -1, "x\x00": -1, "-1\x00": -1, "256\x00": -1, "0\x00\x00": -1, "1\x002\x00": -1} {
		if got, ok := ParseStatus([]byte(text)); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
}

func TestReadonlyLocalsAreDropped(t *testing.T) {
	got := dropReadonly("declare -- x=\"1\"\ndeclare -r r=\"1\"\ndeclare -ar ra=([0]=\"r\")\ndeclare -r rr=\"r\"\ndeclare -x r2=\"1\"\n", "r")
	if want := "declare -- x=\"1\"\ndeclare -ar ra=([0]=\"r\")\ndeclare -r rr=\"r\"\ndeclare -x r2=\"1\"\n"; got != want {
		t.Errorf("%q", got)
	}
	if got := dropReadonly("declare -- r=\"1\"\ndeclare -ir r\n", "r"); got != "declare -- r=\"1\"\n" {
		t.Errorf("%q", got)
	}
}

func TestTextsHaveNoLineEnds(t *testing.T) {
	if strings.Contains(Texts(), "\n") || strings.ContainsAny(Tell, "'\n") {
		t.Error("there is a line end, or a quote in what is a trap")
	}
	if n := strings.Count(Texts(), "\x00"); n != 4 {
		t.Errorf("%d parts", n)
	}
}

// TestScriptQuotes puts names and values that look like commands into each field of a state. It checks that the
// script does not execute them.
func TestScriptQuotes(t *testing.T) {
	s := sample()
	evil := "'; touch evil; '"
	s.Snapshot.Dirs = []string{evil}
	s.Snapshot.Shopts = "extglob:$(touch evil):a;touch:touch evil:nullglob\ntouch"
	s.Snapshot.FunctionFlags = "declare -fx " + evil + "\ntouch evil\n"
	s.Snapshot.Options = "noglob:$(touch evil):noglob; touch evil"
	s.Base = []string{"A=" + evil, "B-C=x", "$(touch evil)=y"}
	script := s.Script([]string{"A=new" + evil, "D=1", "x;touch evil=2"}, "") + s.Begin("trap", "")
	script = strings.ReplaceAll(script, Quote(evil), "Q")
	script = strings.ReplaceAll(script, Quote("="+evil), "Q")
	script = strings.ReplaceAll(script, Quote("new"+evil), "Q")
	if strings.Contains(script, "touch") {
		t.Errorf("a command got into the script:\n%s", script)
	}
	for _, want := range []string{"\\builtin shopt -s extglob\n", "\\builtin set +o allexport ", " -o noglob ", "\\builtin declare -f'x' -- Q\n", "\\builtin return 130;"} {
		if !strings.Contains(script, want) {
			t.Errorf("no %q in\n%s", want, script)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{"a": true, "_": true, "Z9_z": true, "": false, "9a": false, "a-b": false, "a b": false, "a[1]": false, "é": false, "@": false, "a{": false, "`": false} {
		if got := isName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
