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

// commandsFD is the file descriptor of the host's socket in a shell and in its children. The programs "tool:NAME"
// try this descriptor first.
const commandsFD = 201

// This variable contains the sockets that this process inherited from the host, indexed by file descriptor. They are
// never closed.
var inherited = struct {
	sync.Mutex
	files map[int]*os.File
}{files: make(map[int]*os.File)}

// socketFD returns the descriptor of the host's socket in this process.
func socketFD(c *tool.Commands) (fd int, ok bool) {
	if c == nil {
		return 0, false
	}
	number, ok := strings.CutPrefix(c.Address, "fd:")
	fd, err := strconv.Atoi(number)
	return fd, ok && err == nil
}

// commandsSocket returns the socket file to pass to a shell, or nil if no socket exists.
func commandsSocket(c *tool.Commands) *os.File {
	fd, ok := socketFD(c)
	if !ok {
		return nil
	}
	inherited.Lock()
	defer inherited.Unlock()
	if inherited.files[fd] == nil {
		inherited.files[fd] = os.NewFile(uintptr(fd), c.Address)
	}
	return inherited.files[fd]
}

// grants returns shell commands that let a shell and its children call tools. The calls also require a token; see
// [grant].
func grants(c *tool.Commands) string {
	if c == nil {
		return ""
	}
	path := session.Quote(c.Address)
	if _, ok := socketFD(c); ok {
		path = fmt.Sprintf("/proc/$$/fd/%d", commandsFD)
	}
	// The builtin export receives the variable in a separate command. With the option keyword, export would not
	// recognize an assignment among its arguments.
	return fmt.Sprintf("\\builtin printf -v %[1]s %%s %[2]s; \\builtin export %[1]s %[3]s\n", tool.CommandsEnv, path, tool.CallEnv)
}

// grant returns the command that sets the token in a shell that was prepared with [grants].
func grant(c *tool.Commands) string {
	if c == nil {
		return ""
	}
	return `\builtin printf -v ` + tool.CallEnv + ` %s ` + session.Quote(c.Token) + `; ` // a plain assignment to a read-only variable would end the shell
}

// handler returns shell commands that define the handler for unknown commands. The handler calls the tool that has
// the command's name.
func handler(c *tool.Commands) string {
	if c == nil {
		return ""
	}
	return session.CommandNotFound(c.Dir, filepath.Join(c.Dir, tool.CommandsProgram))
}
