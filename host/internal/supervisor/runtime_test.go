package supervisor

import (
	"os"
	"testing"
)

// TestHostsOfOneProcess checks that the end of one host does not remove the sockets of another host in the same
// process.
func TestHostsOfOneProcess(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	var all []*Supervisor
	var dirs []string
	for range 3 {
		s := New(Options{})
		t.Cleanup(func() { s.Close(0) })
		dir, err := s.RuntimeDir()
		if err != nil {
			t.Fatal(err)
		}
		all, dirs = append(all, s), append(dirs, dir)
	}
	for i, s := range all {
		s.Close(0)
		if _, err := os.Stat(dirs[i]); !os.IsNotExist(err) {
			t.Errorf("host %d left its directory: %v", i, err)
		}
		for j, dir := range dirs[i+1:] {
			if _, err := os.Stat(dir); err != nil {
				t.Errorf("host %d removed the directory of host %d: %v", i, i+1+j, err)
			}
		}
	}
}
