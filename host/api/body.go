package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"toolhost.dev/sdk/tool"
)

// maxObject is the maximum size of a body that [decode] reads, in bytes.
const maxObject = 1 << 20

// decode reads the JSON object in the body of a request. An empty body is an empty object. If the body is invalid, it
// answers the request with an error, which contains the expected form.
func decode(w http.ResponseWriter, r *http.Request, v any, form string) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxObject))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if errors.Is(err, io.EOF) {
		return true
	}
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return true
		}
		if err == nil {
			err = errors.New("more follows after the object")
		}
	}
	refuseBody(w, err, form)
	return false
}

// refuseBody answers a request whose body cannot be read, or does not have the given form.
func refuseBody(w http.ResponseWriter, err error, form string) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, tool.InvalidArguments, fmt.Sprintf("the body is too large; the limit is %d bytes, and long content can be passed in a file", large.Limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		refuse(w, http.StatusRequestTimeout, tool.Timeout, "the body did not arrive in time; send it faster, or pass long content in a file")
	case form == "":
		refuse(w, http.StatusBadRequest, tool.InvalidArguments, fmt.Sprintf("the body cannot be read: %v", err))
	default:
		refuse(w, http.StatusBadRequest, tool.InvalidArguments,
			fmt.Sprintf("the body is invalid (%v); send %s", err, form))
	}
}

// bodyTimeout is the default of [Options.BodyTimeout]. With this default, a client needs about one Mbit/s to send a
// body of the maximum size.
const bodyTimeout = 2 * time.Minute

// hurried limits the time in which a client sends the body of a request. The limit also applies if the handler does not
// read the body. Without it, a client that sends slowly could occupy a connection for any time.
func hurried(next http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		c := http.NewResponseController(w)
		if c.SetReadDeadline(time.Now().Add(timeout)) == nil {
			r = r.WithContext(r.Context())                                                                // a copy, because the server drains the body of the original request
			r.Body = &deadlined{ReadCloser: r.Body, clear: func() { _ = c.SetReadDeadline(time.Time{}) }} // the error is ignored: the connection is lost
		}
		next.ServeHTTP(w, r)
	})
}

// deadlined is a body with a deadline. At the end of the body, it clears the deadline. Otherwise the deadline would
// cancel the call that follows.
type deadlined struct {
	io.ReadCloser
	clear func()
}

func (d *deadlined) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err == io.EOF {
		d.clear()
	}
	return n, err
}
