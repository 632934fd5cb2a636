package chdb

import (
	"debug/elf"
	"debug/macho"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// CheckFile judges the library file without loading it: right kind of file for this system, complete, built for glibc,
// and exporting what driftline calls. It returns a [*LibraryError].
func CheckFile(path string) error {
	if err := regularFile(path); err != nil {
		return &LibraryError{Path: path, Reason: err.Error()}
	}
	var err error
	if runtime.GOOS == "darwin" {
		err = checkMachO(path)
	} else {
		err = checkELF(path)
	}
	if err != nil {
		return &LibraryError{Path: path, Reason: err.Error()}
	}
	return nil
}

func checkELF(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	size := uint64(info.Size())
	if size == 0 {
		return errors.New("the file is empty")
	}
	head, err := os.Open(path)
	if err != nil {
		return err
	}
	defer head.Close()
	var magic [4]byte
	if n, _ := head.ReadAt(magic[:], 0); n < 4 || string(magic[:]) != elf.ELFMAG {
		return errors.New("not a shared library (no ELF header)")
	}
	file, err := elf.NewFile(head)
	if err != nil {
		// debug/elf reads the section table, which lies at the end of the file: a cut file fails here.
		return fmt.Errorf("truncated or damaged (%d bytes; %v)", size, err)
	}
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	if file.Type != elf.ET_DYN || file.Machine != want || file.Class != elf.ELFCLASS64 {
		return fmt.Errorf("built for another system (%s, %s), this is %s", file.Machine, file.Class, platform())
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && p.Off+p.Filesz > size {
			return fmt.Errorf("truncated: %d bytes, a segment ends at %d", size, p.Off+p.Filesz)
		}
	}
	for _, s := range file.Sections {
		if s.Type != elf.SHT_NOBITS && s.Offset+s.FileSize > size {
			return fmt.Errorf("truncated: %d bytes, section %s ends at %d", size, s.Name, s.Offset+s.FileSize)
		}
	}
	needed, err := file.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("damaged dynamic section: %w", err)
	}
	for _, lib := range needed {
		if strings.HasPrefix(lib, "libc.musl") {
			return errors.New("built for musl; driftline needs the glibc build")
		}
	}
	if loaders, _ := filepath.Glob("/lib/ld-musl-*.so.1"); len(loaders) > 0 && !haveGlibc() {
		return errors.New("this system has musl only; the library needs glibc (use a glibc-based system or image, or a ClickHouse server)")
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("no dynamic symbols: %w", err)
	}
	have := make(map[string]bool, len(requiredSymbols))
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && strings.HasPrefix(s.Name, "chdb_") {
			have[s.Name] = true
		}
	}
	return missingSymbols(have)
}

func missingSymbols(have map[string]bool) error {
	var missing []string
	for _, name := range requiredSymbols {
		if !have[name] {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) == len(requiredSymbols):
		return errors.New("not libchdb: it exports none of the chdb functions")
	case len(missing) > 0:
		return fmt.Errorf("wrong version: it lacks %s; driftline needs libchdb %s.x", strings.Join(missing, ", "), WantVersion)
	}
	return nil
}

func haveGlibc() bool {
	for _, pattern := range []string{"/lib64/ld-linux-*.so.*", "/lib/ld-linux-*.so.*", "/lib/*/ld-linux-*.so.*"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return true
		}
	}
	return false
}

func checkMachO(path string) error {
	file, err := macho.Open(path)
	if err != nil {
		return fmt.Errorf("not a macOS shared library, or truncated: %w", err)
	}
	defer file.Close()
	want := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[runtime.GOARCH]
	if file.Cpu != want {
		return fmt.Errorf("built for another system (%s), this is %s", file.Cpu, platform())
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	for _, load := range file.Loads {
		if seg, ok := load.(*macho.Segment); ok && seg.Offset+seg.Filesz > uint64(info.Size()) {
			return fmt.Errorf("truncated: %d bytes, segment %s ends at %d", info.Size(), seg.Name, seg.Offset+seg.Filesz)
		}
	}
	return nil
}
