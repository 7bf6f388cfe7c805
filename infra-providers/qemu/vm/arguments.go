// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"strconv"
	"strings"
)

// files are where the files of a machine are.
type files struct {
	pid, socket, seed, userData string
	// disks lie over the image in the case of the first, and over nothing in that of the others.
	image                    string
	disks                    []string
	kernel, initrd, firmware string
}

// program is the emulator of an architecture.
func program(architecture string) string {
	if architecture == "arm64" {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}

// arguments is the command line of a machine.
func arguments(spec Spec, at files) []string {
	args := []string{
		"-name", "guest=" + value(spec.ID),
		"-nodefaults", "-no-user-config", "-display", "none",
		"-daemonize", "-pidfile", at.pid,
		// A guest that powers off leaves the process, so that this can be told from a process that died.
		"-no-shutdown",
		"-chardev", "socket,id=qmp,server=on,wait=off,path=" + value(at.socket), "-mon", "chardev=qmp,mode=control",
		"-chardev", "ringbuf,id=console,size=" + strconv.Itoa(consoleRing), "-serial", "chardev:console",
		"-smp", strconv.Itoa(int(spec.CPUs)), "-m", fmt.Sprintf("%dM", spec.MemoryMiB),
		"-device", "virtio-rng-pci",
	}
	args = append(args, processor(spec)...)
	for i, disk := range at.disks {
		var over *node
		if i == 0 {
			image := readOnly("", at.image, spec.ImageFormat)
			over = &image
		}
		device := writable(fmt.Sprintf("disk%d", i), disk, over)
		args = append(args, "-blockdev", string(text(&device)), "-device", fmt.Sprintf("virtio-blk-pci,drive=%s,bootindex=%d", device.Name, i+1))
	}
	if spec.Ignition {
		for _, name := range []string{"opt/com.coreos/config", "opt/org.flatcar-linux/config"} {
			args = append(args, "-fw_cfg", "name="+name+",file="+value(at.userData))
		}
	} else {
		seed := readOnly("seed", at.seed, "raw")
		args = append(args, "-blockdev", string(text(&seed)), "-device", "virtio-blk-pci,drive="+seed.Name)
	}
	args = append(args, network(spec)...)
	for _, given := range [][2]string{{"-bios", at.firmware}, {"-kernel", at.kernel}, {"-initrd", at.initrd}, {"-append", spec.CommandLine}} {
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
	const kvm, tcg = "kvm", "tcg,tb-size=256" // by default translations take a quarter of the host's memory
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
		return append([]string{"-netdev", "bridge,id=net0,br=" + value(spec.Bridge)}, device...)
	}
	netdev := "user,id=net0"
	for _, f := range spec.Forwards {
		netdev += fmt.Sprintf(",hostfwd=%s:%s:%d-:%d", strings.ToLower(f.Protocol), f.Address, f.HostPort, f.Port)
	}
	return append([]string{"-netdev", netdev}, device...)
}

// value protects a value among comma-separated options.
func value(s string) string { return strings.ReplaceAll(s, ",", ",,") }
