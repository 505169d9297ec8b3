package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"toolhost.dev/sdk/tool"
)

// ErrTooLarge is the cause of an error for a file larger than the caller's limit.
var ErrTooLarge = errors.New("workspace: the file is too large")

// fail converts an error of the operating system into an error with a remedy.
func fail(doing, path string, err error) error {
	var done *tool.Error
	var e *tool.Error
	switch {
	case errors.As(err, &done):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return notExist(path)
	case errors.Is(err, syscall.EROFS):
		e = tool.Errorf(tool.PermissionDenied, "Cannot %s %s: the file system is read-only. Use a path elsewhere.", doing, path)
	case errors.Is(err, fs.ErrPermission):
		e = tool.Errorf(tool.PermissionDenied, "Cannot %s %s: permission denied. Check its owner and mode (ls -l), or use another file.", doing, path)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e = tool.Errorf(tool.ExecutionFailed, "Cannot %s %s: no space is left on the device. The old content is unchanged. Free some space and try again.", doing, path)
	case errors.Is(err, syscall.EFBIG):
		e = tool.Errorf(tool.ExecutionFailed, "Cannot %s %s: the file would be larger than the file system or the limits of this user allow. The file is unchanged. Write less, or split the file.", doing, path)
	case errors.Is(err, syscall.ENAMETOOLONG):
		e = tool.Errorf(tool.InvalidArguments, "Cannot %s %s: the name is too long. Use a shorter one.", doing, path)
	case errors.Is(err, syscall.ELOOP):
		e = tool.Errorf(tool.InvalidArguments, "Cannot %s %s: its symbolic links form a loop. Give the path of the file itself.", doing, path)
	case errors.Is(err, os.ErrClosed):
		return errClosed()
	case escapes(err):
		e = tool.Errorf(tool.Security, "Cannot %s %s: the path now leads outside of its root, because it was changed during the call. List the directory again.", doing, path)
	default:
		e = tool.Errorf(tool.ExecutionFailed, "Cannot %s %s: %v.", doing, path, cause(err))
	}
	return e.WithCause(err)
}

// cause returns the innermost wrapped error, without the name of the system call and the path.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// escapes reports whether os.Root rejected a name because the name leads outside the root. Package os does not export
// this error.
func escapes(err error) bool { return cause(err).Error() == "path escapes from parent" }

func notExist(path string) error {
	return tool.Errorf(tool.NotFound, "File does not exist: %s", path).WithCause(fs.ErrNotExist)
}

func errClosed() error {
	return tool.Errorf(tool.Internal, "The workspace was closed while the call ran. Try again.").WithCause(os.ErrClosed)
}

func rootError(path string, err error) error {
	var e *tool.Error
	info, statErr := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e = tool.Errorf(tool.NotFound, "The root %s does not exist. Create the directory, or change the roots in the configuration.", path)
	case errors.Is(err, syscall.ENOTDIR), statErr == nil && !info.IsDir():
		e = tool.Errorf(tool.InvalidArguments, "The root %s is not a directory. Name a directory in the configuration.", path)
	case errors.Is(err, errLink):
		e = tool.Errorf(tool.Security, "The root %s leads through a symbolic link. Name the directory itself in the configuration.", path)
	default:
		e = tool.Errorf(tool.PermissionDenied, "The root %s cannot be opened: %v. Make the directory accessible, or change the roots in the configuration.", path, cause(err))
	}
	return e.WithCause(err)
}

// errOutside returns the error for a path that is outside all roots.
func (w *Workspace) errOutside(given, at, via string) error {
	if len(w.roots) == 0 {
		return tool.Errorf(tool.Security, "The path %s cannot be used: this call has no access to files. An operator can add a root in the configuration.", given)
	}
	how := ""
	if via != "" {
		how = " through the symbolic link " + via
	}
	if at = filepath.Clean(at); at != given {
		how += " to " + at + ","
	}
	return tool.Errorf(tool.Security, "The path %s leads%s outside of the roots: %s. Use a path inside one of the roots. An operator can add a root in the configuration.",
		given, how, w.describeRoots())
}

// sameStepwise is an implementation of sameWithoutLinks that checks one path element at a time.
func sameStepwise(path string, info fs.FileInfo) error {
	for dir := path; ; dir = filepath.Dir(dir) {
		now, err := os.Lstat(dir)
		switch {
		case err != nil:
			return err
		case now.Mode()&fs.ModeSymlink != 0, dir == path && !os.SameFile(now, info):
			return errLink
		case dir == filepath.Dir(dir):
			return nil
		}
	}
}
