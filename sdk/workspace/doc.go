// Package workspace implements access to the files that a call may touch: the trees beneath its
// roots, and nothing else.
//
// A handler gets its [Workspace] from its call; other programs call [Open]. The handler turns
// what a model wrote into a [Path] first. Every operation takes a Path, so no name reaches the
// file system unchecked:
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
//   - All access goes through [os.Root], which resolves each name step by step beneath an open
//     directory. A symbolic link that is swapped in during a call cannot lead it outside.
//   - Symbolic links are followed while they stay inside some root, absolute links too.
//     [Path.String] returns the path that they lead to.
//   - Only regular files are opened, and no check blocks. A FIFO without a writer, a device and
//     a socket are refused.
//   - The root with the longest path decides whether a file is writable, so a read-only directory
//     can lie in a writable tree.
//   - Readers see a write whole or not at all. A write keeps mode, owner and attributes, and is
//     refused if the file is no longer what the caller read (see [Workspace.WriteFile]).
//   - If a process is killed during a write, the next one cleans up (see [Journal]).
//
// The expectation of a write keeps two writers apart, whatever programs they are. Tools of one
// process that read, change and write should also hold [Workspace.Lock], so that they wait for
// each other instead of failing.
//
// Package text, below this one, decodes the content of files without loss.
//
// Every error is a *[tool.Error] that names the next step. It wraps its cause, so
// errors.Is(err, fs.ErrNotExist) works.
//
// A hard link inside a root to a file outside looks like any other file. The kernel's sandbox has
// to prevent that one is made.
package workspace
