// Package workspace provides access to the files that a call is permitted to use: the directory trees of its roots.
//
// A handler gets its [Workspace] from its call. Other programs call [Open]. Every operation takes a [Path], which the
// handler first resolves from the model's input. No unchecked name can therefore reach the file system:
//
//	ws, err := call.Workspace()
//	p, err := ws.Resolve(call.Cwd, in.FilePath)
//	snap, err := ws.ReadFile(p, workspace.MaxFileSize)
//	decoded, err := text.Decode(snap.Data)
//	…
//	data, err := decoded.Encode(changed)
//	done, err := ws.WriteFile(ctx, p, data, workspace.WriteOptions{Expect: snap})
//	return &sdk.Result{Effects: []tool.Effect{done.Effect()}}, nil
//
// These rules hold:
//
//   - All access uses [os.Root], which resolves each name step by step below an open directory. A symbolic link that
//     appears during a call cannot redirect the access to a file outside.
//   - Symbolic links are followed if their targets are inside a root. This includes absolute links. [Path.String]
//     returns the final target.
//   - Only regular files are opened. FIFOs, devices and sockets are rejected without blocking.
//   - The root with the longest path decides whether a file is writable. A read-only root can therefore be inside a
//     writable root.
//   - Readers see either the old or the new content of a file. A write keeps mode, owner and attributes. It fails if the
//     file differs from the content that the caller read (see [Workspace.WriteFile]).
//   - If a process is killed during a write, the next process cleans up (see [Journal]).
//
// The expected content of a write protects the changes of all other programs. Tools that read, change and write a file
// should also hold [Workspace.Lock], so that they wait for each other instead of failing.
//
// Package text decodes the content of files without loss.
//
// Every error is a *[tool.Error] with a remedy. It wraps its cause, so that errors.Is(err, fs.ErrNotExist) works.
//
// A hard link to a file outside the roots is indistinguishable from an ordinary file. The kernel's sandbox must prevent
// the creation of such links.
package workspace
