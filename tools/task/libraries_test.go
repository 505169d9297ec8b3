package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestUnpackedProgramsStandAlone checks that each program and library of the unpacked Debian packages finds its
// libraries in an empty environment, and that none depends on a package that only some machines have. As a control, a
// copy of a library that does not know the directories is found.
func TestUnpackedProgramsStandAlone(t *testing.T) {
	t.Parallel()
	r, _ := repository(t, nil)
	dir, err := filepath.EvalSymlinks(r.Path(debianDir))
	if err != nil {
		t.Skip("the Debian packages are not there; run make peers-debian")
	}
	missing, err := missingLibraries(dir)
	if err != nil || len(missing) > 0 {
		t.Errorf("%v\n%s", err, strings.Join(missing, "\n"))
	}
	for _, program := range []string{"bin/python3", "bin/fd", "bin/ctags", "usr/bin/skopeo", "usr/bin/buildah", "usr/bin/podman", "usr/bin/crun", "usr/bin/conmon", "usr/bin/prometheus", "usr/bin/promtool", "usr/bin/docker-registry", "usr/lib/chromium/chromium", "lib/systemd/systemd"} {
		c := exec.CommandContext(t.Context(), filepath.Join(dir, program), "--version")
		c.Env = []string{}
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", program, err, out)
		}
	}

	elsewhere := t.TempDir()
	copied := filepath.Join(elsewhere, "skopeo")
	b, err := os.ReadFile(filepath.Join(dir, "usr/bin/skopeo"))
	if err == nil {
		err = os.WriteFile(copied, b, 0o700)
	}
	if err == nil {
		err = exec.CommandContext(t.Context(), filepath.Join(dir, patchelf), "--remove-rpath", copied).Run()
	}
	if err != nil {
		t.Fatal(err)
	}
	if missing, err := missingLibraries(elsewhere); err != nil || !strings.Contains(strings.Join(missing, "\n"), "libgpgme.so.11 is at ") {
		t.Errorf("a program without directories: %q, %v", missing, err)
	}
}

// TestLinked checks which files need libraries.
func TestLinked(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the programs of the system have another format")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "text"), "#!/bin/sh\n")
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(shell)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "sh"), b, fs.FileMode(0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	if files, err := linked(dir); err != nil || len(files) != 1 || filepath.Base(files[0]) != "sh" {
		t.Errorf("%q, %v", files, err)
	}
}
