package mount

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCloseWhileConnecting checks that a plugin can close while its server does not answer.
func TestCloseWhileConnecting(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	m := &mount{limits: Limits{Start: time.Hour}, closed: make(chan struct{}), news: newNews()}
	m.private.mount = m
	m.cfg = Config{Command: []string{"/bin/sh", "-c", `: > "$0"; exec sleep 3600`, started}}
	failed := make(chan error, 1)
	go func() {
		_, err := m.discover(t.Context())
		failed <- err
	}()
	for {
		if _, err := os.Stat(started); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	closed := make(chan struct{})
	go func() {
		m.close()
		close(closed)
	}()
	select {
	case <-closed:
		if err := <-failed; err == nil {
			t.Error("a list of tools came from a server that does not answer")
		}
	case <-time.After(time.Minute):
		t.Fatal("the plugin waits for the server")
	}
}
