package message

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"toolhost.dev/sdk/rawjson"
)

// maxExact is the largest integer id that the SDK keeps. It decodes numbers as float64.
const maxExact = 1 << 53

// IDs converts the ids of a client for the SDK and back. The SDK would change fractions, large numbers and strings with
// half of a surrogate pair. They become strings that begin with a mark, which the client cannot know.
type IDs struct{ mark string }

// NewIDs returns the conversion for one client.
func NewIDs() IDs { return IDs{rand.Text()} }

// ForSDK returns the id of a request for the SDK.
func (s IDs) ForSDK(id json.RawMessage) jsonrpc.ID {
	v, ok := value(id)
	if !ok {
		v = s.mark + string(id)
	}
	out, _ := jsonrpc.MakeID(v) // it has no error for strings and numbers
	return out
}

// value returns the value of an id. It returns false if the SDK would change the id.
func value(id json.RawMessage) (v any, ok bool) {
	if id[0] == '"' {
		text := rawjson.Text(id)
		return text, !strings.ContainsRune(text, '\ufffd')
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return float64(n), err == nil && n >= -maxExact && n <= maxExact && strconv.FormatInt(n, 10) == string(id)
}

func kept(id json.RawMessage) bool {
	_, ok := value(id)
	return ok
}

// OfResponse returns the id of a request of the SDK that a response repeats. The SDK numbers its requests, and a client
// may write a number in another form. It returns false for an id that no request of the SDK has.
func OfResponse(id json.RawMessage) (jsonrpc.ID, bool) {
	var n float64
	if json.Unmarshal(id, &n) != nil || n != float64(int64(n)) {
		return jsonrpc.ID{}, false
	}
	out, err := jsonrpc.MakeID(n)
	return out, err == nil
}

// ForClient returns a line of the SDK with the ids as the client wrote them.
func (s IDs) ForClient(line []byte) []byte {
	quoted := []byte(`"` + s.mark)
	var out []byte
	for {
		i := bytes.Index(line, quoted)
		switch {
		case i < 0 && out == nil:
			return line
		case i < 0:
			return append(out, line...)
		}
		end := i + len(quoted)
		for line[end] != '"' { // the encoder escapes quotes, so that the string ends
			if line[end] == '\\' {
				end++
			}
			end++
		}
		id := strings.TrimPrefix(rawjson.Text(line[i:end+1]), s.mark)
		out, line = append(append(out, line[:i]...), id...), line[end+1:]
	}
}
