// Package timerslack has an entry point for programs that hold a host: toolhost, and any
// that uses package host and makes many short calls. Go's runtime has a thread that looks
// after the others, every 20 µs for as long as there is something to do. The kernel may be 50 µs
// late to wake it (the timer slack), and that is often enough to take a fifth of the
// processors' time for a short call. Linked with
//
//	go build -ldflags='-E toolhost.dev/host/timerslack.Entry'
//
// a program that imports this package allows 500 µs before the runtime begins; later that thread is
// there already, and no other can change it. What the program starts inherits it, and all
// that sleeps may sleep so much longer. Linked without, it begins as any program does, and
// is somewhat slower. There is an entry point for Linux on amd64 and arm64 only. See
// docs/adr/0027 and prctl(2), PR_SET_TIMERSLACK.
package timerslack
