package execgate

import (
	"os"
	"os/exec"
	"testing"
)

// TestStarts checks that a process with the parent and the binary of a plugin is not taken for the plugin's own, if it has
// executed the binary. Here, the test is the plugin.
func TestStarts(t *testing.T) {
	const child = "EXECGATE_CHILD"
	if os.Getenv(child) != "" {
		_, _ = os.Stdin.Read(make([]byte, 1))
		return
	}
	c := exec.Command(os.Args[0], "-test.run=^TestStarts$")
	c.Env = append(os.Environ(), child+"=1")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = c.Wait()
	}()
	f := family{plugin: os.Getpid()}
	at, ok := f.find(c.Process.Pid)
	if !ok || at.self.parent != f.plugin {
		t.Fatalf("%+v %t", at, ok)
	}
	if f.starts(&at) {
		t.Error("another process with the same binary is taken for a fork of the plugin")
	}
	own, ok := f.find(f.plugin)
	if !ok || !f.starts(&own) {
		t.Errorf("the plugin itself is not recognized: %+v %t", own, ok)
	}
}
