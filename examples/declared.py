"""Functions that declare how they are scheduled; calls as tasks; and what is declared is updated at the next start."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tickless import Retry, Scheduler, TaskFunction, after


def program(folder: str) -> tuple[Scheduler, TaskFunction[[str, int], int]]:
    """As a module of an application would: whoever calls this has scheduled nothing yet."""
    scheduler = Scheduler(store=f"sqlite:///{folder}/tasks.db")

    @scheduler.every(hours=24, name="tidy", tags=["night"])
    def tidy() -> None:
        print("tidied")

    @scheduler.task(name="upload", retry=Retry(3), timeout=10)
    def upload(name: str, size: int) -> int:
        return len(name) * size

    return scheduler, upload


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        scheduler, upload = program(folder)
        assert not list(Path(folder).glob("*-bell-*")), "nothing listens before the start"
        with scheduler:
            print("tidies next at", scheduler.get("tidy").next_fire)
            first = scheduler.get("tidy").next_fire
            task = upload.schedule("report", 3)
            print("uploaded", task.result(timeout=10), "bytes")
            soon = upload.options(when=after(0.05), priority=1).schedule("photo", 2)
            print("uploaded", soon.result(timeout=10), "bytes a little later")

        scheduler, upload = program(folder)  # tomorrow, after a deploy
        with scheduler:
            assert scheduler.get("tidy").next_fire == first, "the same task, the same next fire"
            print("one task after two starts:", [info.id for info in scheduler.tasks() if info.id == "tidy"])
        print("a plain call:", upload("poem", 1))
