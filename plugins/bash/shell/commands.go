package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"toolhost.dev/plugins/bash/session"
	"toolhost.dev/sdk/tool"
)

// commandsFD is the host's socket in a shell and in all that it starts: the programs
// "tool:NAME" look for it there first.
const commandsFD = 201

// inherited are the host's sockets that this process has, by their addresses. They are
// never closed.
var inherited sync.Map

// commandsSocket gives the descriptor to pass on to a shell, nil when there is none,
// and the path by which the shell and what it starts find the socket.
func commandsSocket(c *tool.Commands) (file *os.File, path string) {
	number, ok := strings.CutPrefix(c.Address, "fd:")
	fd, err := strconv.Atoi(number)
	if !ok || err != nil {
		return nil, session.Quote(c.Address)
	}
	kept, ok := inherited.Load(fd)
	if !ok {
		kept, _ = inherited.LoadOrStore(fd, os.NewFile(uintptr(fd), c.Address))
	}
	file, _ = kept.(*os.File)
	return file, fmt.Sprintf("/proc/$$/fd/%d", commandsFD)
}

// lend gives the commands that let a new shell, and what it starts, call tools.
func lend(c *tool.Commands) (file *os.File, script string) {
	if c == nil {
		return nil, ""
	}
	file, path := commandsSocket(c)
	return file, fmt.Sprintf("\\builtin export %s=%s %s=%s\n", tool.CommandsEnv, path, tool.CallEnv, session.Quote(c.Token)) +
		session.CommandNotFound(c.Dir, filepath.Join(c.Dir, tool.CommandsProgram))
}
