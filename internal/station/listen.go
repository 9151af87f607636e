package station

import (
	"fmt"
	"net"
	"strconv"
)

func listenAddress(listen string) (host string, port int, err error) {
	if listen == "" {
		return "", 0, nil
	}
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("--listen %q: want host:port, for example 127.0.0.1:4222", listen)
	}
	if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("--listen %q: the port is not a number from 0 to 65535", listen)
	}
	if port == 0 {
		port = -1 // any free port
	}
	return host, port, nil
}
