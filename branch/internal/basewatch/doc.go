// Package basewatch finds out what changed in the base of branches. One [Watch] serves all branches of a base in a
// process.
package basewatch
