package roots

import (
	"os"
	"path/filepath"
	"testing"
)

func TestBroad(t *testing.T) {
	home := filepath.Join(t.TempDir(), "people", "me")
	project := filepath.Join(home, "project")
	if err := os.MkdirAll(project, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{
		"/": true, "/etc": true, "/etc/ssl": true, "/usr": true, "/usr/bin": true, "/var": true, "/usr/share": true, "/usr/local/bin": true, "/var/lib": true, "/home": true, "/opt": true,
		home: true, filepath.Dir(home): true, link: true,
		project: false, "/var/www": false, "/opt/app": false, "/usr/local/src": false,
	} {
		if why := broad(dir, nil); (why != "") != want {
			t.Errorf("broad(%s) = %q, want a reason: %v", dir, why, want)
		}
	}
	if why := broad(home, []string{link}); why != "" {
		t.Errorf("an allowed directory is refused as %s", why)
	}
	if why := broad(filepath.Dir(home), []string{home}); why == "" {
		t.Error("the parent of an allowed directory is allowed")
	}
}
