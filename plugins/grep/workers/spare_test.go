package workers

import (
	"os"
	"runtime"
	"testing"
)

// TestSpare checks that there is one more processor but no more workers, and that GOMAXPROCS in the environment is kept.
func TestSpare(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer func() {
		runtime.GOMAXPROCS(before)
		fixed.Store(0)
	}()
	t.Setenv("GOMAXPROCS", "5")
	addSpare()
	if now := runtime.GOMAXPROCS(0); now != before || Number() != before {
		t.Errorf("%d processors and %d workers, where GOMAXPROCS is set; there were %d", now, Number(), before)
	}
	if err := os.Unsetenv("GOMAXPROCS"); err != nil {
		t.Fatal(err)
	}
	addSpare()
	if now := runtime.GOMAXPROCS(0); now != before+1 || Number() != before {
		t.Errorf("%d processors and %d workers; there were %d", now, Number(), before)
	}
}
