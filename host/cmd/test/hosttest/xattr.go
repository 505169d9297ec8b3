package hosttest

import (
	"errors"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// attributesAreKept reports whether the file system of the scripts supports extended attributes.
func attributesAreKept() (bool, error) {
	f, err := os.CreateTemp("", "xattr")
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name())
	return unix.Setxattr(f.Name(), "user.toolhost", []byte("x"), 0) == nil, f.Close()
}

// attribute implements the script command xattr. "xattr set FILE NAME VALUE" sets an extended attribute. "xattr is FILE
// NAME VALUE" checks the value of an attribute. "! xattr is FILE NAME" checks that the attribute is missing.
func attribute(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case len(args) == 4 && args[0] == "set" && !neg:
		ts.Check(unix.Setxattr(ts.MkAbs(args[1]), args[2], []byte(args[3]), 0))
	case len(args) == 4 && args[0] == "is" && !neg, len(args) == 3 && args[0] == "is" && neg:
		value := make([]byte, 1<<10)
		n, err := unix.Getxattr(ts.MkAbs(args[1]), args[2], value)
		switch {
		case neg && err == nil:
			ts.Fatalf("%s has %s: %q", args[1], args[2], value[:n])
		case neg && !errors.Is(err, unix.ENODATA), !neg && err != nil:
			ts.Fatalf("%s of %s: %v", args[2], args[1], err)
		case !neg && string(value[:n]) != args[3]:
			ts.Fatalf("%s of %s is %q, not %q", args[2], args[1], value[:n], args[3])
		}
	default:
		ts.Fatalf("usage: xattr set FILE NAME VALUE, xattr is FILE NAME VALUE, ! xattr is FILE NAME")
	}
}
