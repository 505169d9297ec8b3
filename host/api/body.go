package api

import (
	"io"
	"net/http"
	"time"
)

// bodyTimeout is the default of [Options.BodyTimeout]. A body of the maximum size needs one Mbit/s.
const bodyTimeout = 2 * time.Minute

// hurried limits the time in which a client sends the body of a request, also if the handler does not read it. A client
// that sends its body slowly would otherwise keep a connection as long as it likes.
func hurried(next http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		c := http.NewResponseController(w)
		if c.SetReadDeadline(time.Now().Add(timeout)) == nil {
			r = r.WithContext(r.Context())                                                                // a copy, because the server drains its own body
			r.Body = &deadlined{ReadCloser: r.Body, clear: func() { _ = c.SetReadDeadline(time.Time{}) }} // the error is ignored: the connection is lost
		}
		next.ServeHTTP(w, r)
	})
}

// deadlined is a body with a deadline. At its end it clears the deadline, which would otherwise end the call.
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
