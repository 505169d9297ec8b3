package workspace_test

import (
	"os"
	"sync"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

// TestSymlinkSwap replaces a directory by a symbolic link that leads outside or to a read-only root. It checks that
// no file outside is read or written, and that no file in the read-only root is written.
func TestSymlinkSwap(t *testing.T) {
	for name, c := range map[string]struct{ link, guarded string }{
		"relative, outside": {"../out", "out"},
		"absolute, outside": {"$/out", "out"},
		"read-only root":    {"ro", "w/ro"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, "w/d/f", "w/real/", c.guarded+"/f", "w/link -> "+c.link)
			must(t, os.WriteFile(dir+"/"+c.guarded+"/f", []byte("guarded"), 0o666))
			roots := []string{dir + "/w"}
			if c.guarded == "w/ro" {
				roots = append(roots, dir+"/w/ro:ro")
			}
			w := space(t, roots...)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_ = os.Rename(dir+"/w/d", dir+"/w/aside")
						_ = os.Rename(dir+"/w/link", dir+"/w/d")
						_ = os.Rename(dir+"/w/d", dir+"/w/link")
						_ = os.Rename(dir+"/w/aside", dir+"/w/d")
					}
				}
			})
			read, written, refused := 0, 0, 0
			for range 4000 {
				p, err := w.Resolve(dir+"/w", "d/f")
				if err != nil {
					refused++
					continue
				}
				if s, err := w.ReadFile(p, 100); err == nil {
					read++
					if string(s.Data) == "guarded" && c.guarded == "out" {
						t.Fatalf("the outside was read as %s", p)
					}
				}
				if !p.Writable() {
					continue
				}
				switch _, err := w.WriteFile(t.Context(), p, []byte("ours"), workspace.WriteOptions{}); kind(err) {
				case "":
					written++
				case tool.NotFound, tool.Conflict, tool.Security, tool.InvalidArguments:
				default:
					t.Fatal(err)
				}
			}
			close(stop)
			wg.Wait()
			t.Logf("%d times read, %d written, %d refused at once", read, written, refused)
			content(t, dir+"/"+c.guarded+"/f", "guarded")
		})
	}
}
