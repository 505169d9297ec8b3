package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestGitPaths(t *testing.T) {
	for name, tc := range map[string]struct {
		make             func(root string) error
		fixed, protected string // paths below the root
	}{
		"none":       {func(string) error { return nil }, "", ""},
		"repository": {func(root string) error { return files(root, ".git/HEAD", ".git/config", ".git/hooks/sample") }, ".git", ".git/hooks .git/config"},
		"bare bones": {func(root string) error { return files(root, ".git/HEAD") }, ".git", ".git/hooks .git/config"},
		"worktree":   {func(root string) error { return files(root, ".git") }, "", ".git"},
		"more files": {func(root string) error { return files(root, ".git/config", ".git/config.worktree", ".git/commondir") }, ".git", ".git/hooks .git/config .git/config.worktree .git/commondir"},
		"submodules": {
			func(root string) error {
				return files(root, ".git/config", ".git/modules/a/HEAD", ".git/modules/b/c/HEAD", ".git/modules/a/modules/d/HEAD")
			},
			".git .git/modules .git/modules/a .git/modules/a/modules .git/modules/a/modules/d .git/modules/b .git/modules/b/c",
			".git/hooks .git/config .git/modules/a/hooks .git/modules/a/config .git/modules/a/modules/d/hooks .git/modules/a/modules/d/config .git/modules/b/c/hooks .git/modules/b/c/config",
		},
		"worktrees": {
			func(root string) error {
				return files(root, ".git/config", ".git/worktrees/a/commondir", ".git/worktrees/b/HEAD")
			},
			".git .git/worktrees .git/worktrees/a .git/worktrees/b", ".git/hooks .git/config .git/worktrees/a/commondir",
		},
		"worktrees with settings": {
			func(root string) error {
				_ = files(root, ".git/worktrees/a/commondir")
				return os.WriteFile(filepath.Join(root, ".git/config"), []byte("[Extensions]\n\tworktreeConfig = true\n"), 0o600)
			},
			".git .git/worktrees .git/worktrees/a", ".git/hooks .git/config .git/config.worktree .git/worktrees/a/commondir .git/worktrees/a/config.worktree",
		},
		"git directory":                {func(root string) error { return files(root, "HEAD", "objects/x", "refs/x") }, "", "hooks config"},
		"git directory with a planted": {func(root string) error { return files(root, "HEAD", "objects/x", "refs/x", ".git/HEAD") }, ".git", "hooks config .git/hooks .git/config"},
		"git directory with a file":    {func(root string) error { return files(root, "HEAD", "objects/x", "refs/x", ".git") }, "", "hooks config .git"},
		"git directory with a link": {func(root string) error {
			_ = files(root, "HEAD", "objects/x", "refs/x")
			return os.Symlink("/elsewhere", filepath.Join(root, ".git"))
		}, "", "hooks config"},
		"git directory of a worktree": {func(root string) error { return files(root, "HEAD", "commondir") }, "", "hooks config config.worktree commondir"},
		"linked modules": {func(root string) error {
			_ = files(root, ".git/config")
			return os.Symlink("/m", filepath.Join(root, ".git/modules"))
		}, "", ".git"},
		"linked": {func(root string) error { return os.Symlink("/elsewhere", filepath.Join(root, ".git")) }, "", ""},
		"linked hooks": {func(root string) error {
			_ = files(root, ".git/config")
			return os.Symlink("/h", filepath.Join(root, ".git/hooks"))
		}, "", ".git"},
		"linked config": {func(root string) error {
			_ = files(root, ".git/HEAD")
			return os.Symlink("/h", filepath.Join(root, ".git/config"))
		}, "", ".git"},
	} {
		root := t.TempDir()
		if err := tc.make(root); err != nil {
			t.Fatal(err)
		}
		fixed, protected := gitPaths(root, func(path string) string { return path })
		for _, c := range []struct {
			what string
			got  []string
			want string
		}{{"fixed", fixed, tc.fixed}, {"protected", protected, tc.protected}} {
			var got []string
			for _, p := range c.got {
				rel, _ := filepath.Rel(root, p)
				got = append(got, rel)
			}
			if want := strings.Fields(c.want); !slices.Equal(got, want) {
				t.Errorf("%s: %s are %v, want %v", name, c.what, got, want)
			}
		}
		for _, p := range protected {
			if _, err := os.Lstat(p); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func files(root string, names ...string) error {
	for _, name := range names {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}
