package workers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

func TestRun(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func(was *os.File) { os.Stderr = was }(os.Stderr)
	os.Stderr = log
	var sum, ended atomic.Int64
	Run(5, func(w int) { sum.Add(1 << w) })
	Run(0, func(int) { t.Error("none was asked for") })
	if sum.Load() != 31 {
		t.Error(sum.Load())
	}
	panicking := make(chan struct{})
	err = Catch(func() error {
		Run(3, func(w int) {
			defer ended.Add(1)
			if w == 1 {
				defer close(panicking)
				panic("oh")
			}
			<-panicking
		})
		return errors.New("it goes on")
	})
	var f *PanicError
	if !errors.As(err, &f) || f.Value != "oh" || ended.Load() != 3 || !strings.Contains(err.Error(), "oh") {
		t.Errorf("%v, %d ended", err, ended.Load())
	}
	text, err := os.ReadFile(log.Name())
	if err != nil || strings.Count(string(text), "panic: oh\n") != 1 || !strings.Contains(string(text), "workers.TestRun") {
		t.Errorf("%v: the log has not once where it came about:\n%s", err, text)
	}
}

func TestCatch(t *testing.T) {
	mine := errors.New("mine")
	if err := Catch(func() error { return mine }); !errors.Is(err, mine) {
		t.Error(err)
	}
	var m map[string]int
	if err := Catch(func() error { m["x"] = 1; return nil }); err == nil || !strings.Contains(err.Error(), "nil map") {
		t.Error(err)
	}
	if err := Catch(func() error { return nil }); err != nil {
		t.Error(err)
	}
}
