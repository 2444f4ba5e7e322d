//! What engine-bench exports while a sweep runs.

use super::metrics;

metrics! { HARNESS: "Every metric of engine-bench, in the order of the documentation.";
    // The sweep.
    PASS = "bench_sweep_pass" Gauge Count "1 for the pass that runs, by cell, round and pass.";
    ROUND = "bench_sweep_round" Gauge Count "The round under way.";
    VISITS_PLANNED = "bench_sweep_visits_planned" Gauge Count "Visits of the plan; an adaptive sweep may make fewer.";
    VISITS_KEPT = "bench_sweep_visits_kept_total" Counter Count "Visits that gave samples.";
    VISITS_VOID = "bench_sweep_visits_void_total" Counter Count "Visits that others disturbed and that were repeated.";
    VISITS_FAILED = "bench_sweep_visits_failed_total" Counter Count "Visits that gave nothing.";
    PAYLOADS = "bench_sweep_payloads_total" Counter Count "Payloads and fork choices answered VALID.";
    CELL_GGAS = "bench_sweep_cell_ggas_per_second" Gauge Count "Execution throughput of a cell until now, in Ggas/s, by cell.";
    CELL_GGAS_LOW = "bench_sweep_cell_ggas_per_second_low" Gauge Count "Lower end of its interval, by cell; from the second visit on.";
    CELL_GGAS_HIGH = "bench_sweep_cell_ggas_per_second_high" Gauge Count "Upper end of its interval, by cell; from the second visit on.";

    // The machine, read when it is asked for.
    CPU_BUSY = "bench_machine_cpu_busy_seconds_total" Counter Seconds "CPU time of programs and of the kernel, all CPUs.";
    CPU_INTERRUPTS = "bench_machine_cpu_interrupts_seconds_total" Counter Seconds "CPU time of interrupts, all CPUs.";
    CPU_STEAL = "bench_machine_cpu_steal_seconds_total" Counter Seconds "CPU time taken by the host of this virtual machine, all CPUs.";
    CONTEXT_SWITCHES = "bench_machine_context_switches_total" Counter Count "Context switches of the whole machine.";
    MEMORY_AVAILABLE = "bench_machine_memory_available_bytes" Gauge Bytes "Memory that programs can have without swapping.";
    DISK_READ = "bench_machine_disk_read_bytes_total" Counter Bytes "Bytes read from all disks.";
    DISK_WRITTEN = "bench_machine_disk_written_bytes_total" Counter Bytes "Bytes written to all disks.";
}
