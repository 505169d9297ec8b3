package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"sync"
)

// record runs another server and passes its input and output on. It first appends each line to a file, after '>' for a
// line of the client and '<' for one of the server.
func record(file string, command []string) {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	c := exec.Command(command[0], command[1:]...) //nolint:gosec // the test chooses the server
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		panic(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := c.Start(); err != nil {
		panic(err)
	}
	var writing sync.Mutex
	pass := func(from io.Reader, to io.Writer, mark string) {
		lines := bufio.NewReader(from)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			writing.Lock()
			_, err = out.Write(append([]byte(mark), line...))
			writing.Unlock()
			if err != nil {
				panic(err)
			}
			if _, err := to.Write(line); err != nil {
				return
			}
		}
	}
	go func() {
		pass(os.Stdin, in, ">")
		_ = in.Close()
	}()
	pass(stdout, os.Stdout, "<")
	_ = c.Wait() // the end of the output is the end of the server
}
