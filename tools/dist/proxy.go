package dist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// published returns the directories of the modules that other projects import or install.
func (r *release) published() []string {
	out := []string{"sdk", "sdk/statedb", "shellscript", "sandbox", "branch", "host", "host/admin/registries", "host/fleet", "host/cmd"}
	for _, p := range r.Plugins {
		out = append(out, "plugins/"+p)
	}
	return out
}

// proxy writes a Go module proxy that can be used with GOPROXY=file://DIR. In the proxy, the project's modules require
// each other by version. In the repository, they use replace directives instead.
func (r *release) proxy(dir string) error {
	for _, m := range r.published() {
		if err := r.publish(dir, m); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	return nil
}

// publish adds a module to a proxy. dir is the directory of the module in the repository.
func (r *release) publish(proxy, dir string) error {
	b, err := os.ReadFile(r.Path(dir + "/go.mod"))
	if err != nil {
		return err
	}
	v := module.Version{Path: modfile.ModulePath(b), Version: "v" + r.version}
	mod, err := publishedMod(b, v.Version)
	if err != nil {
		return err
	}
	files, err := r.files(dir, mod)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := zip.Create(&archive, v, files); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": v.Version, "Time": r.at.Format(time.RFC3339)})
	if err != nil {
		return err
	}
	escaped, err := module.EscapePath(v.Path)
	if err != nil {
		return err
	}
	at := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil { //nolint:gosec // it is to be published
		return err
	}
	var errs []error
	for name, content := range map[string][]byte{"list": []byte(v.Version + "\n"), v.Version + ".info": info, v.Version + ".mod": mod, v.Version + ".zip": archive.Bytes()} {
		errs = append(errs, os.WriteFile(filepath.Join(at, name), content, 0o644)) //nolint:gosec // it is to be published
	}
	return errors.Join(errs...)
}

// ownModules is the prefix of the module paths of this project.
const ownModules = "toolhost.dev/"

// publishedMod returns a go.mod that requires the project's modules by version instead of replacing them.
func publishedMod(b []byte, version string) ([]byte, error) {
	f, err := modfile.Parse("go.mod", b, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Clone(f.Replace) {
		if !strings.HasPrefix(r.Old.Path, ownModules) {
			return nil, fmt.Errorf("go.mod replaces %s; go install refuses such a module", r.Old.Path)
		}
		if err := f.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return nil, err
		}
	}
	for _, r := range f.Require {
		if strings.HasPrefix(r.Mod.Path, ownModules) {
			if err := f.AddRequire(r.Mod.Path, version); err != nil {
				return nil, err
			}
		}
	}
	f.Cleanup()
	return f.Format()
}

// files returns the tracked files of a module, without the files of other modules in its subdirectories. The
// argument "mod" replaces the content of go.mod. If the module has no license file, the license of the repository is
// added.
func (r *release) files(dir string, mod []byte) ([]zip.File, error) {
	c := r.command("git", "ls-files", "-z", "--", dir)
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	files := []zip.File{content{"go.mod", mod}}
	licensed := false
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		inside := strings.TrimPrefix(name, dir+"/")
		st, err := os.Lstat(r.Path(name))
		nested := slices.ContainsFunc(r.Modules, func(m string) bool { return strings.HasPrefix(m, dir+"/") && strings.HasPrefix(name, m+"/") })
		if nested || inside == "go.mod" || errors.Is(err, os.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
			continue // skip go.mod, deleted files, and links, because a module cannot contain links
		}
		b, err := os.ReadFile(r.Path(name))
		if err != nil {
			return nil, err
		}
		licensed = licensed || inside == "LICENSE"
		files = append(files, content{inside, b})
	}
	if licensed {
		return files, nil
	}
	license, err := os.ReadFile(r.Path("LICENSE"))
	return append(files, content{"LICENSE", license}), err
}

// content is a file in the archive of a module.
type content struct {
	path  string
	bytes []byte
}

// Path implements [zip.File].
func (c content) Path() string { return c.path }

// Lstat implements [zip.File].
func (c content) Lstat() (os.FileInfo, error) { return info{c}, nil }

// Open implements [zip.File].
func (c content) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.bytes)), nil }

// info describes a [content].
type info struct{ content }

func (i info) Name() string     { return filepath.Base(i.path) }
func (i info) Size() int64      { return int64(len(i.bytes)) }
func (info) Mode() os.FileMode  { return 0o644 }
func (info) ModTime() time.Time { return time.Time{} }
func (info) IsDir() bool        { return false }
func (info) Sys() any           { return nil }
