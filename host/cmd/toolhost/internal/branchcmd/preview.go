package branchcmd

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
)

// PreviewName returns the name of a new branch for a preview.
func PreviewName(s *cli.Settings) (string, error) {
	if s.Branch != "" {
		return "", errors.New("--preview runs the command in a branch of its own, so it excludes --branch")
	}
	b := make([]byte, 4)
	_, _ = rand.Read(b) // the error is ignored, because Read always succeeds
	return admin.PreviewPrefix + hex.EncodeToString(b), nil
}

// ShowPreview adds to a result what the command changed in the branch of its preview, and returns it as text. It removes a
// branch without changes.
func ShowPreview(s *cli.Settings, name string, res *host.Result) (text string, err error) {
	b, err := admin.OpenBranches(s.Options())
	if err != nil {
		return "", err
	}
	defer b.Close() //nolint:errcheck // the database was only used for the audit log
	changes, err := b.Changes(name)
	if err != nil {
		return "", err
	}
	if res.Metadata == nil {
		res.Metadata = make(map[string]any)
	}
	preview := map[string]any{"changes": changes}
	res.Metadata["preview"] = preview
	text = "[Preview: the command changes no files of the workspace.]"
	if len(changes) == 0 {
		err = b.Discard(context.Background(), name)
	} else {
		preview["branch"] = name
		var diff bytes.Buffer
		err = b.Diff(&diff, name)
		text = fmt.Sprintf("[Preview: nothing was changed yet. To make these changes: toolhost branch apply %[1]s. To drop them: toolhost branch discard %[1]s. Only files are held back: what the command did in the network or to other processes is done.]\n%[2]s", name, diff.String())
	}
	return text, err
}
