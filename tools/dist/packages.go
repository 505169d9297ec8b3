package dist

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// packages writes the packages for authors of plugins: a Go module proxy, the wheel of the Python SDK, the npm package
// of the Node SDK, and an archive with the .proto files of the protocol and their descriptors.
func (r *release) packages() error {
	wheel, name, err := Wheel(r.Path("sdk/python"), r.at)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(r.out, name), wheel, 0o644), //nolint:gosec // it is to be published
		r.npm(), r.protocol(), r.proxy(filepath.Join(r.out, Proxy)),
	)
}

// protocol writes the archive with the .proto files of the protocol and their descriptors.
func (r *release) protocol() error {
	var entries []entry
	for _, root := range []string{"sdk/proto/toolhost", "sdk/buf.yaml", "sdk/LICENSE", "sdk/node/src/protocol.binpb", "docs/protocol.md"} {
		err := filepath.WalkDir(r.Path(root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path) //nolint:gosec // the tree is the repository
			rel, relErr := filepath.Rel(r.Path("sdk"), path)
			if relErr != nil || strings.HasPrefix(rel, "..") || strings.HasPrefix(rel, "node") {
				rel = filepath.Base(path)
			}
			entries = append(entries, entry{filepath.ToSlash(rel), content, 0o644})
			return err
		})
		if err != nil {
			return err
		}
	}
	archive := "toolhost-proto_" + r.version
	packed, err := pack(archive, entries, r.at)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, archive+".tar.gz"), packed, 0o644) //nolint:gosec // it is to be published
}

// NodeModules is the directory with the programs that build the Node SDK, relative to the root. The target "peers"
// installs these programs.
const NodeModules = "sdk/node/node_modules"

// npm builds the Node SDK in a copy of its directory, and packs it.
func (r *release) npm() error {
	if _, err := os.Stat(r.Path(NodeModules + "/.bin/esbuild")); err != nil {
		return fmt.Errorf("the npm package cannot be built: %w. Run make peers", err)
	}
	dir, err := os.MkdirTemp("", "dist-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	for _, name := range []string{"package.json", "tsconfig.json", "README.md", "src"} {
		if err := r.command("cp", "-r", r.Path("sdk/node/"+name), dir).Run(); err != nil {
			return err
		}
	}
	license, err := os.ReadFile(r.Path("LICENSE"))
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "LICENSE"), license, 0o644), os.Symlink(r.Path(NodeModules), filepath.Join(dir, "node_modules"))); err != nil { //nolint:gosec // it is to be published
		return err
	}
	for _, args := range [][]string{{"run", "--silent", "build"}, {"pack", "--silent", "--pack-destination", r.out}} {
		c := r.command("npm", args...)
		c.Dir = dir
		if out, err := c.Output(); err != nil {
			return fmt.Errorf("npm %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

// Wheel returns the wheel of the Python project in a directory, and the file name of the wheel. The project must
// consist of Python sources only, in the directory src. The wheel has the same content as a wheel that Python's own
// tools build from pyproject.toml.
func Wheel(dir string, at time.Time) (content []byte, name string, err error) {
	project, err := os.ReadFile(filepath.Join(dir, "pyproject.toml"))
	if err != nil {
		return nil, "", err
	}
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		return nil, "", err
	}
	version := value(project, "version")
	base := strings.ReplaceAll(value(project, "name"), "-", "_") + "-" + version
	info := base + ".dist-info/"
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\nLicense: %s\nRequires-Python: %s\n", value(project, "name"), version,
		value(project, "description"), value(project, "license"), value(project, "requires-python"))
	for _, dependency := range strings.Split(value(project, "dependencies"), ", ") {
		metadata += "Requires-Dist: " + strings.Trim(dependency, `"`) + "\n"
	}
	metadata += "Description-Content-Type: text/markdown\n\n" + string(readme)
	files := map[string][]byte{
		info + "METADATA": []byte(metadata),
		info + "WHEEL":    []byte("Wheel-Version: 1.0\nGenerator: toolhost\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
	}
	src := filepath.Join(dir, "src")
	err = filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "__pycache__") {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err == nil {
			files[filepath.ToSlash(rel)], err = os.ReadFile(path) //nolint:gosec // the tree is the repository
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	content, err = zipped(files, info+"RECORD", at)
	return content, base + "-py3-none-any.whl", err
}

// zipped returns a zip archive of files. The archive also contains a file with the name record, which lists the hashes
// of the files.
func zipped(files map[string][]byte, record string, at time.Time) ([]byte, error) {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var lines strings.Builder
	for _, name := range names {
		sum := sha256.Sum256(files[name])
		fmt.Fprintf(&lines, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(files[name]))
	}
	files[record] = []byte(lines.String() + record + ",,\n")
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range append(names, record) {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at.UTC(), ExternalAttrs: 0o100644 << 16})
		if err == nil {
			_, err = f.Write(files[name])
		}
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// value returns the value of a key in a simple TOML file. It removes the quotes of a string and the brackets of a list.
func value(toml []byte, key string) string {
	for line := range strings.Lines(string(toml)) {
		if name, v, ok := strings.Cut(line, " = "); ok && name == key {
			v = strings.TrimSpace(v)
			if list, ok := strings.CutPrefix(v, "["); ok {
				return strings.TrimSuffix(list, "]")
			}
			return strings.Trim(v, `"`)
		}
	}
	return ""
}
