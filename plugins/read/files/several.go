package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"toolhost.dev/plugins/read/excerpt"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/text"
)

// maxSeveral limits the text of several files, in bytes. After the limit is reached, the result contains only the names
// of further files.
const maxSeveral = 4 * excerpt.MaxBytes

// several reads several files. If one file cannot be read, the other files are still read.
func (p *plugin) several(ctx context.Context, call *sdk.Call, in readArgs) (*sdk.Result, error) {
	var out strings.Builder
	var data severalData
	res := &sdk.Result{Title: "Read " + count(1+len(in.MoreFiles), "file")}
	var failed error
	read := 0
	for _, name := range append([]string{in.FilePath}, in.MoreFiles...) {
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "--- %s ---\n", name)
		if out.Len() > maxSeveral {
			out.WriteString("[note: not read, because the files before it fill the answer; read it in another call]\n")
			continue
		}
		one := in
		one.FilePath, one.MoreFiles = name, nil
		r, err := p.one(ctx, call, one)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			failed = err
			fmt.Fprintf(&out, "[error: %s]\n", tool.AsError(err).Message)
			continue
		}
		read++
		out.WriteString(strings.TrimSuffix(r.Output, "\n") + "\n")
		res.Attachments, res.Effects = append(res.Attachments, r.Attachments...), append(res.Effects, r.Effects...)
		var d readData
		if err := json.Unmarshal(r.Data, &d); err != nil {
			return nil, fmt.Errorf("the result for %s: %w", name, err)
		}
		data.Files = append(data.Files, d)
	}
	if read == 0 {
		return nil, failed
	}
	data.readData = data.Files[0]
	res.Output, res.Data = out.String(), sdk.Data(data)
	return res, nil
}

// checkSize refuses a file that is larger than the operator permits (max_file_mb).
func (r *request) checkSize() error {
	if r.max == 0 {
		return nil
	}
	info, err := r.ws.Stat(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // return no error here: the later read returns a better error, which suggests other files
	}
	if err != nil {
		return err
	}
	if info.Size() <= r.max {
		return nil
	}
	return sdk.Errorf(tool.InvalidArguments, "%s has %s, and the largest file that may be read has %s. Use grep to find the lines that you need, or ask the operator to raise max_file_mb of the plugin read.",
		r.name, text.FormatSize(info.Size()), text.FormatSize(r.max))
}

// fromEnd replaces a negative offset by a line number. A negative offset counts lines from the end of the file.
func (r *request) fromEnd(total func() int) {
	if r.in.Offset < 0 {
		r.in.Offset = max(1, total()+1+r.in.Offset)
	}
}
