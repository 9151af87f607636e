// Package console has a browser use the console of a real station: make console. It needs Chromium, Node and, once, the
// npm registry; without them it says what is missing and fails.
package console
