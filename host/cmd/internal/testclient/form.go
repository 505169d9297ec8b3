//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// confirmDefaults calls a tool that shows a form, at a terminal. The user presses Enter at each question, which
// confirms the default.
func (u *user) confirmDefaults(ctx context.Context) error {
	person, program, err := terminalPair()
	if err != nil {
		return err
	}
	defer person.Close()  //nolint:errcheck // the process ends with this function
	defer program.Close() //nolint:errcheck // see above
	if _, err := person.WriteString(strings.Repeat("\n", 5)); err != nil {
		return err
	}
	c := u.command(ctx, "run", field+":test_client_elicitation_defaults")
	var out bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = program, &out, &out
	err = c.Run()
	fmt.Printf("%s\n", out.String())
	return err
}

// terminalPair returns both ends of a pseudo-terminal.
func terminalPair() (person, program *os.File, err error) {
	person, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	var n int
	if err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err == nil {
		n, err = unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, person.Close())
	}
	return person, program, nil
}
