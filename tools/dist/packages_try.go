package dist

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"toolhost.dev/tools/project"
)

// Judge describes the toolhost program that checks plugins, and the settings that the program needs.
type Judge struct {
	// Program is the path of toolhost.
	Program string
	// Python contains environment variables in the form KEY=VALUE. With these variables, python3 finds grpcio.
	Python []string
}

// TryPackages installs the packages of a release in empty directories, without a network. With each package, it checks
// a plugin against the protocol.
func TryPackages(p *project.Project, release string, judge Judge) error {
	version, err := p.Version()
	if err != nil {
		return err
	}
	return errors.Join(tryProtocol(p, release, version), tryWheel(p, release, judge), tryNode(p, release, version, judge))
}

// tryProtocol checks that the archive of the protocol contains the same descriptors that the Node SDK uses.
func tryProtocol(p *project.Project, release, version string) error {
	name := "toolhost-proto_" + version
	t, clean, err := newTrial()
	if err != nil {
		return err
	}
	defer clean()
	if _, err := t.run("tar", "xzf", filepath.Join(release, name+".tar.gz")); err != nil {
		return err
	}
	want, err := os.ReadFile(p.Path("sdk/node/src/protocol.binpb"))
	if err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(t.dir, name, "protocol.binpb"))
	if err == nil && !bytes.Equal(got, want) {
		err = errors.New("the descriptors in the archive of the protocol are not those of the sources")
	}
	_, protoErr := os.Stat(filepath.Join(t.dir, name, "proto/toolhost/v2/plugin.proto"))
	return errors.Join(err, protoErr)
}

// tryWheel installs the wheel, and uses it to check the example plugin in Python.
func tryWheel(p *project.Project, release string, judge Judge) error {
	t, clean, err := newTrial()
	if err != nil {
		return err
	}
	defer clean()
	t.env = append(t.env, judge.Python...)
	installed := filepath.Join(t.dir, "installed")
	if _, err := t.run("/usr/bin/python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--find-links", release, "--target", installed, "toolhost-sdk"); err != nil {
		return err
	}
	example, err := os.ReadFile(p.Path("examples/python/main.py"))
	if err != nil {
		return err
	}
	const copied, packaged = "from toolhost_plugin import", "from toolhost_sdk import"
	text := strings.Replace(string(example), copied, packaged, 1)
	if !strings.Contains(text, packaged) {
		return fmt.Errorf("examples/python/main.py has no %q", copied)
	}
	if err := os.WriteFile(filepath.Join(t.dir, "main.py"), []byte(text), 0o755); err != nil { //nolint:gosec // it is a program
		return err
	}
	args := []string{"plugin", "test", "--calls", p.Path("examples/python/calls.jsonl")}
	path := installed
	for _, v := range judge.Python {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "PYTHONPATH":
			path += string(os.PathListSeparator) + value
		case "LD_LIBRARY_PATH":
			args = append(args, "--env", v)
		}
	}
	_, err = t.run(judge.Program, append(args, "--env", "PYTHONPATH="+path, "./main.py")...)
	return err
}

// tryNode installs the npm package, and uses it to check the example plugin for Node.
func tryNode(p *project.Project, release, version string, judge Judge) error {
	t, clean, err := newTrial()
	if err != nil {
		return err
	}
	defer clean()
	for _, name := range []string{"main.js", "main.test.js", "calls.jsonl", "package.json"} {
		b, err := os.ReadFile(p.Path("examples/node/" + name))
		if err == nil {
			err = os.WriteFile(filepath.Join(t.dir, name), b, 0o755) //nolint:gosec // main.js is a program
		}
		if err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", "--cache", filepath.Join(t.dir, "cache"), filepath.Join(release, "toolhost-sdk-"+version+".tgz")},
		{"node", "--test"},
		{judge.Program, "plugin", "test", "--calls", "calls.jsonl", "./main.js"},
	} {
		if _, err := t.run(args[0], args[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// newTrial returns a trial in a new directory, and a function that removes the directory.
func newTrial() (t trial, clean func(), err error) {
	dir, err := os.MkdirTemp("", "toolhost-try")
	return trial{dir, os.Environ()}, func() { _ = os.RemoveAll(dir) }, err
}
