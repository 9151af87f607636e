//go:build wasip1

// Command hostile does what a program of a sandbox should not be able to. It says ESCAPED where it can.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
	"unsafe"
)

//go:wasmimport wasi_snapshot_preview1 path_open
func pathOpen(dir int32, follow uint32, path unsafe.Pointer, length uint32, create uint32, rights, inherited uint64, flags uint32, fd unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 sock_accept
func sockAccept(fd int32, flags uint32, got unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 sock_send
func sockSend(fd int32, data unsafe.Pointer, n, flags uint32, got unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 fd_renumber
func renumber(from, to int32) uint32

//go:wasmimport inspan run
func hostRun(request unsafe.Pointer, length uint32) int32

//go:wasmimport inspan mode
func hostMode(path unsafe.Pointer, length uint32) int32

//go:wasmimport inspan answer
func hostAnswer(to unsafe.Pointer, length uint32)

// raw opens a path as it is given, without what the standard library makes of it.
func raw(dir int32, path string, create uint32) (int32, uint32) {
	var fd int32
	errno := pathOpen(dir, 1, unsafe.Pointer(unsafe.StringData(path)), uint32(len(path)), create, 1<<1|1<<6, 0, 0, unsafe.Pointer(&fd))
	return fd, errno
}

func try(dir int32, path string) {
	for _, create := range []uint32{0, 1, 1 | 8} {
		fd, errno := raw(dir, path, create)
		if errno != 0 {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(os.NewFile(uintptr(fd), path), 100))
		fmt.Printf("ESCAPED %q: %q %v\n", path, data, err)
	}
}

var sink [][]byte

func deep(n int) int { return deep(n+1) + n }

func main() {
	args := os.Args[1:]
	switch args[0] {
	case "open":
		for _, path := range args[1:] {
			try(3, path)
		}
	case "openat":
		dir, err := os.Open(args[1])
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, path := range args[2:] {
			try(int32(dir.Fd()), path)
		}
	case "nul":
		try(3, args[1]+"\x00"+args[2])
		try(3, args[1]+"\x00/../../"+args[2])
	case "sockets":
		for fd := range int32(16) {
			var got int32
			if sockAccept(fd, 0, unsafe.Pointer(&got)) == 0 || sockSend(fd, unsafe.Pointer(&got), 1, 0, unsafe.Pointer(&got)) == 0 {
				fmt.Println("ESCAPED: a socket")
			}
		}
	case "swap":
		for {
			_ = os.Rename("d", "d2")
			_ = os.Rename("l", "d")
			_ = os.Rename("d", "l")
			_ = os.Rename("d2", "d")
		}
	case "read":
		n, _ := strconv.Atoi(args[1])
		for range n {
			if data, err := os.ReadFile("d/secret"); err == nil && bytes.Contains(data, []byte("outside")) {
				fmt.Println("ESCAPED: read")
			}
			_ = os.WriteFile("d/new", []byte("x"), 0o644)
			_ = os.WriteFile("d/secret", []byte("inside"), 0o644)
			_ = os.Remove("d/doomed")
			_ = os.Link("d/secret", "stolen")
			if data, err := os.ReadFile("stolen"); err == nil && bytes.Contains(data, []byte("outside")) {
				fmt.Println("ESCAPED: linked")
			}
			_ = os.Remove("stolen")
		}
		fmt.Println("read", n)
	case "loop":
		fmt.Println("ready")
		for {
		}
	case "sleep":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "threads":
		for range 100 {
			go func() {
				for {
					time.Sleep(time.Millisecond)
				}
			}()
		}
		fmt.Println("ready")
		select {}
	case "stdin":
		fmt.Println("ready")
		_, err := io.ReadAll(os.Stdin)
		fmt.Println("end", err)
	case "recurse":
		fmt.Println(deep(0))
	case "alloc":
		for {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			sink = append(sink, b)
		}
	case "hold":
		n, _ := strconv.Atoi(args[1])
		b := make([]byte, n)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		sink = append(sink, b)
		fmt.Println("ready")
		_, _ = io.ReadAll(os.Stdin)
	case "spew":
		line := bytes.Repeat([]byte("x"), 1<<16)
		for {
			_, _ = os.Stdout.Write(line)
		}
	case "files":
		for i := 0; ; i++ {
			f, err := os.Create(fmt.Sprint("f", i))
			if err == nil {
				_ = f.Close()
			}
		}
	case "dirs":
		for i := 0; ; i++ {
			_ = os.Mkdir(fmt.Sprint("d", i), 0o755)
		}
	case "grow":
		f, err := os.Create("f")
		for err == nil {
			_, err = f.Write(make([]byte, 1<<20))
		}
		fmt.Println(err)
		for {
		}
	case "sparse":
		f, err := os.Create("f")
		if err == nil {
			err = f.Truncate(1 << 40)
		}
		if err == nil {
			fmt.Println("ESCAPED: a terabyte")
		}
		if _, err = f.WriteAt([]byte("x"), 1<<40); err == nil {
			fmt.Println("ESCAPED: a terabyte")
		}
	case "descriptors":
		var open []*os.File
		for i := 0; i < 5000; i++ {
			f, err := os.Open("/dev")
			if g, e := os.Open("."); e == nil {
				open = append(open, g)
			}
			if err == nil {
				open = append(open, f)
			}
		}
		fmt.Println("open", len(open))
	case "renumber":
		fmt.Println(renumber(3, 0), renumber(99, 3), renumber(1, 3))
	case "chain":
		request, _ := json.Marshal(map[string]any{"args": os.Args, "dir": "/"})
		n := hostRun(unsafe.Pointer(unsafe.SliceData(request)), uint32(len(request)))
		answer := make([]byte, max(n, 0))
		hostAnswer(unsafe.Pointer(unsafe.SliceData(answer)), uint32(len(answer)))
		var told struct{ Out []byte }
		_ = json.Unmarshal(answer, &told)
		fmt.Printf("+%s", told.Out)
	case "host":
		var at [1]byte
		fmt.Println(hostRun(unsafe.Pointer(&at), 1<<31), hostRun(unsafe.Pointer(uintptr(0xfffffff0)), 100), hostMode(unsafe.Pointer(uintptr(0xfffffff0)), 1<<31))
		hostAnswer(unsafe.Pointer(uintptr(0xfffffff0)), 1<<31)
		hostAnswer(unsafe.Pointer(&at), 1<<31)
	}
}
