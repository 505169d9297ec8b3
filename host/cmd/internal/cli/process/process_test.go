package process

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestStdio(t *testing.T) {
	s := Stdio{Env: []string{"A=1", "B=2", "A=3"}, Dir: "/d"}
	if got := s.Getenv("A"); got != "3" {
		t.Errorf("A is %q, wanted the last value", got)
	}
	shared := s.Env
	s.Setenv("A", "4")
	s.Unsetenv("B")
	if _, set := s.LookupEnv("B"); set || s.Getenv("A") != "4" {
		t.Errorf("the environment is %q", s.Env)
	}
	if !slices.Equal(shared, []string{"A=1", "B=2", "A=3"}) {
		t.Errorf("the environment of other commands is %q", shared)
	}
	for path, want := range map[string]string{"": "", "x": "/d/x", "/x": "/x"} {
		if got := s.Path(path); got != want {
			t.Errorf("%q: %q, wanted %q", path, got, want)
		}
	}
	t.Setenv("TOOLHOST_TEST", "process")
	if got := (Stdio{}).Getenv("TOOLHOST_TEST"); got != "process" {
		t.Errorf("without an environment of its own, a command sees %q", got)
	}
}

// TestSignalsOfNobody checks that a command without signals can set their functions.
func TestSignalsOfNobody(t *testing.T) {
	var s *Signals
	s.OnHangup(func() { t.Error("SIGHUP") })
	s.OnInterrupt(func() { t.Error("SIGINT") })
	select {
	case <-s.Terminated():
		t.Error("SIGTERM")
	default:
	}
}

func TestWhenUnread(t *testing.T) {
	for _, closed := range []bool{true, false} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		unread := make(chan struct{})
		stop := WhenUnread(w, func() { close(unread) })
		if closed {
			_ = r.Close()
			<-unread
		}
		stop()
		select {
		case <-unread:
			if !closed {
				t.Error("a pipe with a reader is reported as unread")
			}
		default:
		}
		_, _ = r.Close(), w.Close()
	}
}

// TestConfirm checks that only a yes confirms, also if the input ends without a line feed or at once.
func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "\tYES\r\n": true, "yes": true, "": false, "\n": false, "n\n": false, "yesterday\n": false, "no\ny\n": false} {
		var out strings.Builder
		err := Confirm(strings.NewReader(answer), &out, "Sure?", "Nothing was done.")
		if confirmed := err == nil; confirmed != want || out.String() != map[bool]string{true: "Sure? [y/N] ", false: "Sure? [y/N] Nothing was done.\n"}[confirmed] {
			t.Errorf("%q: %v, %q", answer, err, out.String())
		}
	}
}
