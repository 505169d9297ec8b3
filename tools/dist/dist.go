// Package dist creates the files of a release. [Make] writes archives with all binaries for every platform, checksums
// and bills of materials. The same commit always results in identical bytes.
package dist

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"toolhost.dev/tools/project"
)

// Platforms lists the platforms of a release.
var Platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

// release contains the data for the archives of a release.
type release struct {
	*project.Project

	out     string
	version string
	commit  string
	at      time.Time
	// stamped is the import path of the package whose variables commit and committed are set by the linker.
	stamped string
}

// Make writes a release to the directory out. It first deletes the old content of the directory. Each platform has
// the form OS/ARCH.
func Make(p *project.Project, out string, platforms []string) error {
	r, err := begin(p, out)
	if err != nil {
		return err
	}
	pages, err := r.manual()
	if err != nil {
		return err
	}
	for _, p := range platforms {
		goos, goarch, ok := strings.Cut(p, "/")
		if !ok {
			return fmt.Errorf("unknown platform %q; write one such as linux/amd64", p)
		}
		if err := r.archive(goos, goarch, pages); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return errors.Join(r.packages(), r.checksums())
}

// Packages writes the packages for authors of plugins to the directory out. It first deletes the old content of the
// directory.
func Packages(p *project.Project, out string) error {
	r, err := begin(p, out)
	if err != nil {
		return err
	}
	return r.packages()
}

// begin returns a release with an empty output directory.
func begin(p *project.Project, out string) (*release, error) {
	r := &release{Project: p, out: out}
	return r, errors.Join(r.describe(), os.RemoveAll(out), os.MkdirAll(out, 0o755)) //nolint:gosec // it is to be published
}

// Proxy is the name of the directory with the module proxy in a release.
const Proxy = "proxy"

// describe sets the version and the commit. All files in the release get the time of the commit.
func (r *release) describe() error {
	var err error
	if r.version, err = r.Version(); err != nil {
		return err
	}
	if r.stamped, err = r.BuildPackage(); err != nil {
		return err
	}
	out, err := r.command("git", "log", "-1", "--format=%H %ct").Output()
	if err != nil {
		return fmt.Errorf("git log: %w", err)
	}
	hash, seconds, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	r.commit, r.at = hash, time.Unix(unix, 0).UTC()
	return err
}

func (r *release) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...) //nolint:gosec // the names are those of this program
	c.Dir, c.Stderr = r.Root, os.Stderr
	return c
}

// build builds a binary.
func (r *release) build(goos, goarch, pkg, out, ldflags string) error {
	flags := fmt.Sprintf("-s -w -X %[1]s.commit=%[2]s -X %[1]s.committed=%[3]s %[4]s", r.stamped, r.commit, r.at.Format(time.RFC3339), ldflags)
	// Without -buildvcs=false, the binary would contain version control information that depends on the kind of
	// checkout.
	c := r.command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-o", out, pkg)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOFLAGS=", "GOWORK=")
	return c.Run()
}

// manual generates the manual pages, which are the same for all platforms. For this, it builds toolhost for the current
// platform and runs it.
func (r *release) manual() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "dist-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	program := filepath.Join(dir, "toolhost")
	if err := r.build("", "", "./host/cmd/toolhost", program, ""); err != nil {
		return nil, err
	}
	if err := r.command(program, "man", filepath.Join(dir, "man")).Run(); err != nil {
		return nil, fmt.Errorf("manual pages: %w", err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "man", "*.1"))
	out := make(map[string][]byte)
	for _, p := range pages {
		b, readErr := os.ReadFile(p)
		out["man/man1/"+filepath.Base(p)], err = b, errors.Join(err, readErr)
	}
	if len(out) == 0 {
		err = errors.Join(err, errors.New("there are no manual pages"))
	}
	return out, err
}

// entry is a file in an archive.
type entry struct {
	name    string
	content []byte
	mode    int64
}

func (r *release) archive(goos, goarch string, pages map[string][]byte) error {
	stage, err := os.MkdirTemp("", "dist-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage) //nolint:errcheck // it is a temporary directory
	linked := ""
	if goos == "linux" { // these programs have special entry points on Linux
		linked = "-E " + project.Entry
	}
	binaries := []struct{ name, pkg, ldflags string }{
		{"toolhost-sandbox", "./sandbox/cmd/toolhost-sandbox", linked}, {"toolhost-shim", "./host/cmd/toolhost-shim", linked}, {"toolhost-coordinator", "./host/cmd/toolhost-coordinator", ""},
	}
	for _, p := range r.Plugins {
		binaries = append(binaries, struct{ name, pkg, ldflags string }{"plugins/" + p, "./plugins/" + p, ""})
	}
	// Add the host last, because it contains the hashes of the plugins.
	binaries = append(binaries, struct{ name, pkg, ldflags string }{"toolhost", "./host/cmd/toolhost", linked})
	var entries []entry
	var bill bill
	plugins := make(map[string][]byte)
	for _, b := range binaries {
		if b.name == "toolhost" {
			b.ldflags += " -X " + project.BundledTable + "=" + project.Table(plugins)
		}
		path := filepath.Join(stage, b.name)
		if err := r.build(goos, goarch, b.pkg, path, b.ldflags); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := bill.add(b.name, path, content); err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(b.name, "plugins/"); ok {
			plugins[name] = content
		}
		entries = append(entries, entry{b.name, content, 0o755})
	}
	sbom, err := bill.cycloneDX(r, goos+"/"+goarch)
	if err != nil {
		return err
	}
	entries = append(entries, entry{"sbom.cdx.json", sbom, 0o644})
	for name, content := range pages {
		entries = append(entries, entry{name, content, 0o644})
	}
	texts, err := filepath.Glob(filepath.Join(r.Root, "LICEN[CS]E*"))
	if err != nil {
		return err
	}
	for _, p := range r.Plugins {
		content, err := os.ReadFile(r.Path("plugins/" + p + "/" + project.Manifest))
		if err != nil {
			return err
		}
		entries = append(entries, entry{"plugins/" + p + ".json", content, 0o644})
	}
	sources, err := r.SDK()
	if err != nil {
		return err
	}
	for _, path := range sources {
		content, err := os.ReadFile(r.Path(path))
		if err != nil {
			return err
		}
		entries = append(entries, entry{path, content, 0o644})
	}
	for _, path := range append(texts, filepath.Join(r.Root, "README.md"), filepath.Join(r.Root, "CHANGELOG.md"), filepath.Join(r.Root, "config.hcl")) {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		entries = append(entries, entry{filepath.Base(path), content, 0o644})
	}
	name := fmt.Sprintf("toolhost_%s_%s_%s", r.version, goos, goarch)
	packed, err := pack(name, entries, r.at)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(r.out, name+".cdx.json"), sbom, 0o644), //nolint:gosec // it is to be published
		os.WriteFile(filepath.Join(r.out, name+".tar.gz"), packed, 0o644), //nolint:gosec // it is to be published
	)
}

// pack creates an archive. Its bytes depend only on the entries and the time.
func pack(dir string, entries []entry, at time.Time) ([]byte, error) {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zip)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: dir + "/" + e.name, Size: int64(len(e.content)), Mode: e.mode, ModTime: at, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// checksums writes the file SHA256SUMS for all files of the release, in the format of sha256sum --check.
func (r *release) checksums() error {
	var out strings.Builder
	err := filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		sum, err := sumOf(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		fmt.Fprintf(&out, "%s  %s\n", sum, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(out.String()), 0o644) //nolint:gosec // it is to be published
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}
