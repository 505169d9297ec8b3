// Command dist makes the archives of a release: every binary for every platform, with
// checksums and a bill of materials. The same commit gives the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is what an archive is made of.
type release struct {
	root, out string
	version   string
	commit    string
	at        time.Time
	plugins   []string
}

func main() {
	var r release
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "what to build for, `OS/ARCH`s with commas")
	plugins := flag.String("plugins", "", "the bundled plugins, `names` with commas")
	flag.StringVar(&r.root, "root", ".", "`directory` of the repository")
	flag.StringVar(&r.out, "out", "dist", "`directory` for the archives")
	flag.StringVar(&r.version, "version", "", "`version` in the names")
	flag.Parse()
	r.plugins = strings.Split(*plugins, ",")
	if err := r.run(strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func (r *release) run(platforms []string) error {
	if r.version == "" || len(r.plugins) == 0 || r.plugins[0] == "" {
		return errors.New("say which -version and which -plugins")
	}
	if err := r.readCommit(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil { //nolint:gosec // it is to be published
		return err
	}
	pages, err := r.manual()
	if err != nil {
		return err
	}
	for _, p := range platforms {
		goos, goarch, ok := strings.Cut(p, "/")
		if !ok {
			return fmt.Errorf("%q is no platform: write one such as linux/amd64", p)
		}
		if err := r.archive(goos, goarch, pages); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return r.checksums()
}

// readCommit finds out what is released. A commit's time is that of everything in it.
func (r *release) readCommit() error {
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
	c.Dir, c.Stderr = r.root, os.Stderr
	return c
}

// build makes a binary.
func (r *release) build(goos, goarch, pkg, out, ldflags string) error {
	flags := fmt.Sprintf("-s -w -X toolhost.dev/host.commit=%s -X toolhost.dev/host.committed=%s %s", r.commit, r.at.Format(time.RFC3339), ldflags)
	// The stamp of the version control would differ with the kind of checkout.
	c := r.command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-o", out, pkg)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOFLAGS=", "GOWORK=")
	return c.Run()
}

// manual makes the manual pages, which are the same for all platforms, with a program for this one.
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
	start := ""
	if goos == "linux" { // host and shim have entry points of their own
		start = "-E main.entry"
	}
	binaries := []struct{ name, pkg, ldflags string }{
		{"toolhost", "./host/cmd/toolhost", start}, {"toolhost-sandbox", "./host/cmd/toolhost-sandbox", ""}, {"toolhost-shim", "./host/cmd/toolhost-shim", start},
	}
	for _, p := range r.plugins {
		binaries = append(binaries, struct{ name, pkg, ldflags string }{"plugins/" + p, "./plugins/" + p, ""})
	}
	var entries []entry
	var bill bill
	for _, b := range binaries {
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
	texts, err := filepath.Glob(filepath.Join(r.root, "LICEN[CS]E*"))
	if err != nil {
		return err
	}
	for _, path := range append(texts, filepath.Join(r.root, "README.md"), filepath.Join(r.root, "CHANGELOG.md"), filepath.Join(r.root, "config.hcl")) {
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

// pack makes an archive whose bytes depend on nothing but what is in it.
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

// checksums writes SHA256SUMS, as sha256sum --check reads it.
func (r *release) checksums() error {
	names, err := filepath.Glob(filepath.Join(r.out, "toolhost_*"))
	if err != nil {
		return err
	}
	slices.Sort(names)
	var out strings.Builder
	for _, n := range names {
		sum, err := sumOf(n)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, filepath.Base(n))
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
