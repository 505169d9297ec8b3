package mcpstdio

import (
	"errors"
	"strconv"

	"toolhost.dev/sdk/rawjson"
)

var errNotReply = errors.New("the line is not the answer to a request")

// decode parses the answer to a request. It returns the id of the request, and its result or error.
func decode(line []byte) (id int64, r reply, err error) {
	if !rawjson.Valid(line) {
		return 0, r, errNotReply
	}
	known := false
	for key, value := range rawjson.Members(line) {
		switch key {
		case "id":
			id, err = strconv.ParseInt(string(value), 10, 64)
			known = err == nil
		case "result":
			r.result = value
		case "error":
			r.failure = value
		}
	}
	if !known || (r.result == nil) == (r.failure == nil) {
		return 0, reply{}, errNotReply
	}
	return id, r, nil
}
