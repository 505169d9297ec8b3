package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// hostProcess is a toolhost process that answers commands.
type hostProcess struct {
	pid     int
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies *bufio.Reader
}

// startHost starts a host process with the workspace dir. The arguments in options are flags of toolhost.
func startHost(ctx context.Context, bin, dir string, options ...string) (*hostProcess, error) {
	c := exec.CommandContext(ctx, filepath.Join(bin, "toolhost"), append([]string{"--workspace", dir, "--state", stateOf(dir)}, append(options, "batch")...)...) //nolint:gosec // built here
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	return &hostProcess{pid: c.Process.Pid, cmd: c, in: in, replies: bufio.NewReader(out)}, nil
}

// ask runs a command and returns the result line.
func (p *hostProcess) ask(command string) (string, error) {
	b, err := json.Marshal(map[string]any{"id": 1, "command": command})
	if err != nil {
		return "", err
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return "", err
	}
	line, err := p.replies.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the host ended: %w", err)
	}
	return line, nil
}

// stop ends the process.
func (p *hostProcess) stop() {
	_ = p.in.Close()
	_ = p.cmd.Wait() // ignore the error, because it does not affect the measurement
}

// memory returns a value in kB from the status file of a process in /proc.
func memory(pid int, name string) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name); ok {
			return strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")))
		}
	}
	return 0, fmt.Errorf("no %s for %d", name, pid)
}
