package execgate

import (
	"os"
	"os/exec"
	"testing"
)

// TestStarts checks that a process that has executed the plugin's binary is not a fork of the plugin. In this test, the
// test process is the plugin.
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

// TestKnownProcesses checks that a process with a reused id does not belong to the call of the earlier process. It also
// checks that a token is valid for only one plugin.
func TestKnownProcesses(t *testing.T) {
	g := new(Gate)
	c := g.Begin(t.Context(), "key", "token", nil)
	if g.byToken("token", "key") != c || g.byToken("token", "other") != nil {
		t.Error("a token is valid for another plugin")
	}
	f := family{plugin: -1}
	at, ok := f.find(os.Getpid())
	if !ok {
		t.Fatal("this process is not found")
	}
	self := at
	self.top, self.topLife = self.pid, self.self
	f.learn(&self, c)
	if at, ok = f.find(os.Getpid()); !ok || at.call != c {
		t.Errorf("the call is %p, wanted %p", at.call, c)
	}
	self.topLife.start++
	f.learn(&self, c)
	if at, ok = f.find(os.Getpid()); !ok || at.call != nil {
		t.Error("a process belongs to the call of another one with the same id")
	}
	c.End()
	if g.byToken("token", "key") != nil {
		t.Error("the token of a call that ended is valid")
	}
}
