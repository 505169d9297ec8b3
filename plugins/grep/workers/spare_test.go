package workers

import (
	"os"
	"runtime"
	"testing"
)

// TestSpare checks that Spare adds a processor but no worker, and that it respects GOMAXPROCS in the environment.
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
