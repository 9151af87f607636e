//go:build !slow

package station_test

// stride is every how many-th outage is tried; with the tag slow it is all of them.
const stride = 9
