// Package workspace is traversal-proof access to the files a call may touch: the
// trees under its roots, and nothing else.
//
// A handler gets a [Workspace] from its call and turns what a model wrote into a
// [Path] first; every operation takes a Path, so that no name reaches the file
// system unchecked:
//
//	ws, err := call.Workspace()
//	p, err := ws.Resolve(call.Cwd, in.FilePath)
//	snap, err := ws.ReadFile(p, workspace.MaxFileSize)
//	text, err := workspace.Decode(snap.Data)
//	…
//	data, err := text.Encode(changed)
//	done, err := ws.WriteFile(ctx, p, data, workspace.WriteOptions{Expect: snap})
//	return &sdk.Result{Effects: []tool.Effect{done.Effect()}}, nil
//
// What holds:
//
//   - All access goes through [os.Root], which resolves each name step by step
//     beneath an open directory. A symbolic link swapped in while a call runs
//     cannot lead it outside.
//   - Symbolic links are followed as long as they stay inside some root, absolute
//     ones too; [Path.String] is where they lead.
//   - Only regular files are opened, and none of the checks blocks: a FIFO without
//     a writer, a device and a socket are refused.
//   - The root with the longest path decides whether a file is writable, so a
//     read-only directory can lie in a writable tree.
//   - A write is seen whole or not at all, keeps mode, owner and attributes, and
//     is refused when the file is no longer what the caller read (see
//     [Workspace.WriteFile]).
//   - Text is never decoded with loss for writing (see [Decode]).
//   - What a process that was killed in the middle of a write leaves behind is
//     cleared up by the next one (see [Journal]).
//
// The expectation in a write is what keeps two writers apart, whatever programs
// they are. Tools in one process that read, change and write should also hold
// [Workspace.Lock] meanwhile, so that they wait for each other instead of failing.
//
// Every error is a *[tool.Error] that says what to do next; the cause is kept, so
// errors.Is(err, fs.ErrNotExist) works.
//
// A hard link inside a root to a file outside cannot be told from any other file;
// the kernel's sandbox has to prevent making one.
package workspace
