package admin

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host"
)

// TestTokenFile checks which files with a token are accepted, and that no error contains the token.
func TestTokenFile(t *testing.T) {
	const secret, another = "the-secret-of-the-file", 54321
	write := func(mode fs.FileMode) func(path string) error {
		return func(path string) error {
			if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
				return err
			}
			return os.Chmod(path, mode)
		}
	}
	linked := func(path string) error {
		if err := write(0o600)(path + ".target"); err != nil {
			return err
		}
		return os.Symlink(path+".target", path)
	}
	then := func(first func(string) error, change func(string, int, int) error) func(string) error {
		return func(path string) error {
			if err := first(path); err != nil {
				return err
			}
			return change(path, another, -1)
		}
	}
	for name, tc := range map[string]struct {
		prepare func(path string) error
		root    bool // whether only root can prepare the file
		want    string
	}{
		"of this user":            {write(0o600), false, ""},
		"it cannot be written":    {write(0o400), false, ""},
		"the group can read it":   {write(0o640), false, "other users can access the token"},
		"others can read it":      {write(0o604), false, "other users can access the token"},
		"the group can write it":  {write(0o620), false, "other users can access the token"},
		"others can write it":     {write(0o602), false, "other users can access the token"},
		"empty":                   {func(path string) error { return os.WriteFile(path, []byte("\n"), 0o600) }, false, "is empty"},
		"a link of this user":     {linked, false, ""},
		"a link without a target": {func(path string) error { return os.Symlink(path+".none", path) }, false, "no such file"},
		"of another user":         {then(write(0o600), os.Lchown), true, "belongs to user 54321, who can read the token"},
		"a link of another user":  {then(linked, os.Lchown), true, "belongs to user 54321, who could change its target"},
		"a directory by such a link": {func(path string) error {
			if err := os.Mkdir(path+".d", 0o700); err != nil {
				return err
			}
			if err := then(func(path string) error { return os.Symlink(path+".d", path) }, os.Lchown)(path); err != nil {
				return err
			}
			return write(0o600)(filepath.Join(path+".d", "token"))
		}, true, "who could change its target"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.root && os.Geteuid() != 0 {
				need.Missing(t, "only root can give a file to another user")
			}
			path := filepath.Join(t.TempDir(), "token")
			if err := tc.prepare(path); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(name, "a directory") {
				path = filepath.Join(path, "token")
			}
			token, made, err := TokenFile(path)
			if tc.want == "" && (err != nil || made || token != secret) {
				t.Errorf("%q, %v", token, err)
			}
			if tc.want != "" && (err == nil || token != "" || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%q, %v, want %q", token, err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error contains the token: %v", err)
			}
		})
	}
}

// TestSecretsWithinReach checks that no host starts, reloads its configuration, or serves a workspace if its tools
// could then read or replace a secret file of the host.
func TestSecretsWithinReach(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"work", "root", "read", "ci", "more/a", "sub/keys", "keys"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	config := strings.ReplaceAll(`bundled = false
sandbox {
  root "BASE/root" {}
}
plugin "p" {
  path = "BASE/p"
  sandbox {
    read = ["BASE/read"]
  }
}
principal "ci" {
  workspaces = ["BASE/ci"]
}
`, "BASE", base)
	opts := Options{
		Config: filepath.Join(base, "toolhost.hcl"), Workspace: filepath.Join(base, "work"), StateDir: filepath.Join(base, "state"), Workspaces: []string{filepath.Join(base, "more/*")},
	}
	write := func(text string) {
		if err := os.WriteFile(opts.Config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(config)
	for link, target := range map[string]string{"work/link": "keys", "keys/out": "work", "keys/same": "sub/keys"} {
		if err := os.Symlink(filepath.Join(base, target), filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, within := range map[string]string{
		"work/token": "work", "work/link/token": "work", "keys/out/token": "work", "root/token": "root", "read/token": "read", "ci/token": "ci", "more/a/token": "more",
		"keys/token": "", "keys/same/token": "", "token": "",
	} {
		opts.Secrets = map[string]string{"--token-file": filepath.Join(base, name), "--tls-key": filepath.Join(base, "key")}
		h, err := host.New(t.Context(), opts)
		if err == nil {
			err = h.Close()
		}
		if says := name + " is in " + filepath.Join(base, within) + ", where tools could read or replace it"; within == "" && err != nil || within != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", name, err)
		}
	}

	opts.Secrets = map[string]string{"--fleet-token-file": filepath.Join(base, "keys/token")}
	h, err := host.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	const says = "--fleet-token-file: "
	for dir, refused := range map[string]bool{"more": false, "keys": true} {
		if _, err := h.Cwd(host.Request{Workspace: filepath.Join(base, dir)}); refused != (err != nil && strings.Contains(err.Error(), says)) {
			t.Errorf("a request with the workspace %s: %v", dir, err)
		}
	}
	for text, refused := range map[string]bool{
		config + "# more": false, strings.Replace(config, base+"/root", base+"/keys", 1): true,
	} {
		write(text)
		report, err := h.Reload(t.Context(), host.ReloadOptions{})
		if err != nil || refused != strings.Contains(report.Config.Refused, says) {
			t.Errorf("a reload: %+v, %v", report, err)
		}
	}
}

// TestCheckPrivate checks whose files can hold a token.
func TestCheckPrivate(t *testing.T) {
	for _, tc := range []struct {
		owner, me int
		mode      fs.FileMode
		ok        bool
	}{
		{7, 7, 0o600, true},
		{7, 7, 0o640, false},
		{0, 7, 0o440, true}, // a secret of a service manager
		{0, 7, 0o460, false},
		{0, 7, 0o444, false},
		{0, 0, 0o440, false},
		{8, 7, 0o600, false},
		{7, 0, 0o600, false},
		{7, 7, fs.ModeNamedPipe | 0o666, true},
		{8, 7, fs.ModeNamedPipe | 0o600, false},
	} {
		if err := checkPrivate("token", tc.owner, tc.me, tc.mode); (err == nil) != tc.ok {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}
