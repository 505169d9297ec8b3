package api

import (
	"io"
	"net/http"
	"time"
)

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
