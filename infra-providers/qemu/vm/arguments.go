// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"strconv"
	"strings"
)

// ConsoleBuffer is the size of the console that QEMU keeps in memory until it is read. It must be a power of two.
const ConsoleBuffer = 1 << 20

// Files are the paths of the files of a machine.
type Files struct {
	PID, Socket, Seed, UserData string
	// Image is the backing file of the first disk.
	Image                    string
	Disks                    []string
	Kernel, Initrd, Firmware string
}

// Program returns the name of the emulator of an architecture.
func Program(architecture string) string {
	if architecture == "arm64" {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}

// Arguments returns the command line of a machine.
func Arguments(spec Spec, at Files) []string {
	args := []string{
		"-name", "guest=" + escape(spec.ID),
		"-nodefaults", "-no-user-config", "-display", "none",
		"-daemonize", "-pidfile", at.PID,
		// The process keeps running after the guest powers off, which distinguishes that from a process that has crashed.
		"-no-shutdown",
		"-chardev", "socket,id=qmp,server=on,wait=off,path=" + escape(at.Socket), "-mon", "chardev=qmp,mode=control",
		"-chardev", "ringbuf,id=console,size=" + strconv.Itoa(ConsoleBuffer), "-serial", "chardev:console",
		"-smp", strconv.Itoa(int(spec.CPUs)), "-m", fmt.Sprintf("%dM", spec.MemoryMiB),
		"-device", "virtio-rng-pci",
	}
	args = append(args, processor(spec)...)
	for i, disk := range at.Disks {
		var backing *node
		if i == 0 {
			image := readOnly("", at.Image, spec.ImageFormat)
			backing = &image
		}
		device := writable(fmt.Sprintf("disk%d", i), disk, backing)
		args = append(args, "-blockdev", string(toJSON(&device)), "-device", fmt.Sprintf("virtio-blk-pci,drive=%s,bootindex=%d", device.Name, i+1))
	}
	if spec.Ignition {
		for _, name := range []string{"opt/com.coreos/config", "opt/org.flatcar-linux/config"} {
			args = append(args, "-fw_cfg", "name="+name+",file="+escape(at.UserData))
		}
	} else {
		seed := readOnly("seed", at.Seed, "raw")
		args = append(args, "-blockdev", string(toJSON(&seed)), "-device", "virtio-blk-pci,drive="+seed.Name)
	}
	args = append(args, network(spec)...)
	for _, given := range [][2]string{{"-bios", at.Firmware}, {"-kernel", at.Kernel}, {"-initrd", at.Initrd}, {"-append", spec.CommandLine}} {
		if given[1] != "" {
			args = append(args, given[0], given[1])
		}
	}
	return args
}

func processor(spec Spec) []string {
	var args []string
	switch spec.Architecture {
	case "arm64":
		args = []string{"-machine", "virt", "-cpu", "max"}
	default:
		// Page tables of five levels cost an emulated CPU a tenth of its time.
		args = []string{"-machine", "q35", "-cpu", "max,-la57"}
	}
	const kvm, tcg = "kvm", "tcg,tb-size=256" // the default of the translation cache is a quarter of the host's memory
	switch spec.Acceleration {
	case "KVM":
		return append(args, "-accel", kvm)
	case "TCG":
		return append(args, "-accel", tcg)
	default:
		return append(args, "-accel", kvm, "-accel", tcg)
	}
}

func network(spec Spec) []string {
	device := []string{"-device", "virtio-net-pci,netdev=net0,romfile=,mac=" + spec.MAC}
	if spec.Bridge != "" {
		return append([]string{"-netdev", "bridge,id=net0,br=" + escape(spec.Bridge)}, device...)
	}
	netdev := "user,id=net0"
	for _, f := range spec.Forwards {
		netdev += fmt.Sprintf(",hostfwd=%s:%s:%d-:%d", strings.ToLower(f.Protocol), f.Address, f.HostPort, f.Port)
	}
	return append([]string{"-netdev", netdev}, device...)
}

// escape escapes a value in a list of options.
func escape(s string) string { return strings.ReplaceAll(s, ",", ",,") }
