package files

import (
	"fmt"
	"strings"

	"toolhost.dev/plugins/read/excerpt"
	"toolhost.dev/plugins/read/listing"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// directory returns a listing of the requested directory.
func (r *request) directory() (*sdk.Result, error) {
	if r.in.Encoding == "base64" {
		return nil, sdk.Errorf(tool.InvalidArguments, "%s is a directory, so encoding=base64 is not possible. Leave encoding out to list the directory.", r.name)
	}
	found, err := listing.Read(r.ctx, r.ws, r.path)
	if err != nil {
		return nil, err
	}
	r.fromEnd(func() int { return len(found.Entries) })
	e := excerpt.Of([]byte(strings.Join(found.Lines(), "\n")), r.window())
	if e.Start == 0 && r.in.Offset > 1 {
		return nil, sdk.Errorf(tool.InvalidArguments, "offset %d is past the end: the directory %s has %s. Give a smaller offset.", r.in.Offset, r.name, count(e.Total, "entry"))
	}
	data := readData{Path: r.path.String(), TotalLines: len(found.Entries), StartLine: e.Start, EndLine: e.End,
		IsDirectory:    true,
		Truncated:      e.Capped != excerpt.NotCapped || found.GivenUp,
		RecommendRange: len(found.Entries) > excerpt.MaxLines}
	notes := []string{fmt.Sprintf("%s is a directory with %s", r.name, count(len(found.Entries), "entry"))}
	switch {
	case found.GivenUp:
		notes[0] = fmt.Sprintf("%s is a directory with more than %s; use the tool list with a pattern to find entries", r.name, count(len(found.Entries), "entry"))
	case e.Capped != excerpt.NotCapped:
		notes[0] += fmt.Sprintf("; entries %d-%d are shown. Go on with offset=%d", e.Start, e.End, e.End+1)
	}
	return &sdk.Result{Output: withNotes(e.Text, notes), Title: "List " + r.name, Data: sdk.Data(data)}, nil
}
