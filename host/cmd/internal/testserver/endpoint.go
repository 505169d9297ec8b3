package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// serveEndpoint runs an HTTP server that returns each request as text. It also writes the configuration file: it reads
// the file with the additional suffix ".in" and replaces @ENDPOINT@ with the address of the server.
func serveEndpoint(config string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		if code/100 == 3 {
			w.Header().Set("Location", "http://elsewhere.test/")
		}
		w.WriteHeader(code)
		if code/100 > 3 {
			_, _ = fmt.Fprintln(w, "no such thing")
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintln(w, r.Method, r.RequestURI, string(body), r.Header.Get("Authorization")) //nolint:gosec // for tests
	})
	text, err := os.ReadFile(config + ".in")
	if err != nil {
		panic(err)
	}
	text = []byte(strings.ReplaceAll(string(text), "@ENDPOINT@", "http://"+l.Addr().String()))
	if err := os.WriteFile(config+".new", text, 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(config+".new", config); err != nil {
		panic(err)
	}
	panic(http.Serve(l, mux)) //nolint:gosec // for tests
}
