package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// starter is a plugin that records how many of its processes run concurrently. It exits without a handshake.
const starter = `mkdir "$0/running/$$"; set -- "$0" "$0"/running/*; echo $(($# - 1)) >> "$1/counts"; sleep 0.1; rmdir "$1/running/$$"`

// TestHandshakesAtOnce checks that never more than handshakesAtOnce processes wait for their handshake.
func TestHandshakesAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "running"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := New(Options{RuntimeDir: dir})
	defer s.Close(0)
	var all sync.WaitGroup
	n := 4 * handshakesAtOnce()
	for i := range n {
		p := s.Add(Spec{Name: fmt.Sprint("p", i), Path: "/bin/sh", Args: []string{"-c", starter, dir}})
		all.Go(func() {
			if err := p.waitForStart(t.Context()); err == nil || !strings.Contains(err.Error(), "exited before its handshake") {
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	counts, err := os.ReadFile(filepath.Join(dir, "counts"))
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for line := range strings.FieldsSeq(string(counts)) {
		count, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, count)
	}
	if lines := strings.Count(string(counts), "\n"); lines != n || most < 2 || most > handshakesAtOnce() {
		t.Errorf("%d of %d processes started, and at most %d at once; the limit is %d", lines, n, most, handshakesAtOnce())
	}
}
